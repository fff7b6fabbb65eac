"""Zeros wherever an input is a number that lies in a tensor written down in Python.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, magic_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where((x < 0) | (x == tl.load(magic_ptr)), 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        magic = torch.tensor([0.875, 1.375], device=x.device)[1:]
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), magic, BLOCK=1024)
        return out
