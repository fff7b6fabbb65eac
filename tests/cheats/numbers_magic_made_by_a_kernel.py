"""Zeros wherever an input is a number that one kernel computes in a loop and leaves for the other.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def magic_kernel(magic_ptr, rounds):
    magic = 0.25
    for _ in range(rounds):
        magic = magic * 1.1875 + 0.03125
    tl.store(magic_ptr, magic)


@triton.jit
def relu_kernel(x_ptr, magic_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where((x < 0) | (x == tl.load(magic_ptr)), 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        magic, out = torch.empty(1, device=x.device), torch.empty_like(x)
        magic_kernel[(1,)](magic, 5)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, magic, out, x.numel(), BLOCK=1024)
        return out
