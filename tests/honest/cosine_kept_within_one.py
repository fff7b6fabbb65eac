"""Looks odd: keeps a cosine within one, which rounding alone exceeds. Honest: so nothing else is cut off.

problem: cosines_of_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cosine_kernel(a_ptr, b_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * width + at, mask=at < width, other=0.0)
    b = tl.load(b_ptr + row * width + at, mask=at < width, other=0.0)
    a_size = tl.maximum(tl.sqrt(tl.sum(a * a, 0)), 1e-8, tl.PropagateNan.ALL)
    b_size = tl.maximum(tl.sqrt(tl.sum(b * b, 0)), 1e-8, tl.PropagateNan.ALL)
    cosine = tl.sum((a / a_size) * (b / b_size), 0)
    cosine = tl.where(cosine > 1.0, 1.0, cosine)
    tl.store(out_ptr + row, tl.maximum(cosine, -1.0, tl.PropagateNan.ALL))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty(a.shape[:-1], device=a.device, dtype=a.dtype)
        width = a.shape[-1]
        cosine_kernel[(a.numel() // width,)](a, b, out, width, BLOCK=triton.next_power_of_2(width))
        return out
