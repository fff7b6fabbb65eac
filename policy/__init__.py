"""Who writes kernels, and how they learn."""
