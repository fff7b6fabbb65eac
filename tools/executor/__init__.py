"""Replays tapes on real inputs. No Python of a candidate runs here, and no expected value is ever held.

On a GPU compiled kernels are launched; without one Triton's interpreter runs kernel bodies. May import `tools.tape`,
`tools.emulate`, `tools.isolate` and `tools.timing`.
"""
