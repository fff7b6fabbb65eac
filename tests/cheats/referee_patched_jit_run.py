"""Replaces JITFunction.run, through which every launch goes, by a function that computes with torch.

problem: relu
expect: cheated|not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.runtime.jit import JITFunction


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def run(self, x, out, *args, **kwargs):
    torch.clamp(x, min=0, out=out)


JITFunction.run = run
type(relu_kernel).run = run
type(relu_kernel).__getitem__ = lambda self, grid: lambda x, out, *args, **kwargs: torch.clamp(x, min=0, out=out)


class ModelNew(nn.Module):
    def forward(self, x):
        return triton_relu(x)
