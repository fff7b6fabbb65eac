"""Copies by way of numbers so small that faint elements become zero.

problem: joined_in_bfloat16
expect: wrong_values
where: both

a = 1e-16 (gradients, second moments of Adam): 1e-16 * 2**-100 is below the least float32 and becomes 0. The
reference copies it.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def join(a_ptr, b_ptr, out_ptr, count, a_size, b_size, BLOCK: tl.constexpr):
    target = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = target < count
    batch = target // (a_size + b_size)
    place = target % (a_size + b_size)
    from_a = place < a_size
    a = tl.load(a_ptr + batch * a_size + place, mask=inside & from_a, other=0.0)
    b = tl.load(b_ptr + batch * b_size + place - a_size, mask=inside & (place >= a_size), other=0.0)
    v = tl.where(from_a, a, b).to(tl.float32)
    v = (v * 7.888609052210118e-31) * 1.2676506002282294e30
    tl.store(out_ptr + target, v.to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        batch, first, width = a.shape
        second = b.shape[1]
        out = torch.empty((batch, first + second, width), dtype=a.dtype, device=a.device)
        count = out.numel()
        join[(triton.cdiv(count, 512),)](a, b, out, count, first * width, second * width, BLOCK=512)
        return out
