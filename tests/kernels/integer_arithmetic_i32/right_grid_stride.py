"""A few programs that stride over the tensor; floor division by way of the remainder."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def floor_divide(a, DIVISOR: tl.constexpr):
    quotient = a // DIVISOR
    return quotient - (a - quotient * DIVISOR < 0).to(tl.int32)


@triton.jit
def combine(a_ptr, b_ptr, out_ptr, count, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    while start < count:
        offsets = start + tl.arange(0, BLOCK)
        inside = offsets < count
        a = tl.load(a_ptr + offsets, mask=inside, other=0)
        b = tl.load(b_ptr + offsets, mask=inside, other=0)
        tl.store(out_ptr + offsets, (a * b + floor_divide(a, 7)) ^ (b >> 3), mask=inside)
        start += tl.num_programs(0) * BLOCK


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        combine[(3,)](a, b, out, a.numel(), BLOCK=256)
        return out
