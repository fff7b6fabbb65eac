"""Language models as authors of kernels."""
