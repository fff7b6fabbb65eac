"""triton-agent: PyTorch modules in, verified and measured Triton kernels out.

Importing this package does nothing: no torch, no folder made, no network touched.
"""

__version__ = "0.1.0"
