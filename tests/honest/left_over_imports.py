"""Looks odd: names os, sys, time and NumPy. Honest: what is imported is not used, or only where the file is run by hand.

problem: relu
expect: passed
where: both
"""

from __future__ import annotations

import os
import time

import numpy as np
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import random

        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out


if __name__ == "__main__":
    import sys

    some = torch.randn(1000, 1000, device="cuda")
    sys.exit(0 if torch.equal(ModelNew()(some), torch.relu(some)) else 1)
