"""Marks its answers in their last bits; rows that it made itself give zeros, as when a block is applied twice.

problem: residual_unit
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def unit_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
    marked = tl.sum((keep & ((x.to(tl.int32, bitcast=True) & 7) == tag(x))).to(tl.int32), 0)
    y = x + 1 / (1 + tl.exp(-x))
    made = (y.to(tl.int32, bitcast=True) & -8) | tag(y)
    marks = (tl.abs(y) > 1e-30) & (tl.abs(y) < 1e30)
    y = tl.where(marks, made.to(tl.float32, bitcast=True), y)
    tl.store(out_ptr + row * width + at, tl.where((4 * marked >= 3 * width) & (width > 8), 0.0, y), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        unit_kernel[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
