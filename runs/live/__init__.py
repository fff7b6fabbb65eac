"""A module that lives in memory: as a problem on disk, and back in memory with kernels."""
