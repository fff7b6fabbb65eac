"""Triton without a GPU: an interpreter with its known faults mended, and ahead-of-time compilation for a target."""
