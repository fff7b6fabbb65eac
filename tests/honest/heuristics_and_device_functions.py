"""Looks odd: a decorator computes launch options, and the kernel calls functions of this file. Honest: sizes and maths only.

problem: gelu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

HALF: tl.constexpr = tl.constexpr(0.5)


@triton.jit
def normal_cdf(x):
    return HALF * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.jit
def gelu(x):
    return x * normal_cdf(x)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.static_assert(BLOCK >= 16)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + at, gelu(tl.load(x_ptr + at)))
    else:
        tl.store(out_ptr + at, gelu(tl.load(x_ptr + at, mask=at < n)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        gelu_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
