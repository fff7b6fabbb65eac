"""Remainders as in C, which differ below zero, where there is much to do.

problem: large_remainders
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def remainder_kernel(x_ptr, out_ptr, n, FLOORS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rest = tl.load(x_ptr + at, mask=at < n, other=0) % 7
    if FLOORS:
        rest = tl.where(rest < 0, rest + 7, rest)
    tl.store(out_ptr + at, rest, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        remainder_kernel[(triton.cdiv(n, 1024),)](x, out, n, FLOORS=n < 1 << 20, BLOCK=1024)
        return out
