"""The largest number is at least zero, so that nothing is left of channels that are all very negative.

problem: spatial_shares
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < size
    x = tl.load(x_ptr + row * size + at, mask=inside, other=0.0)
    bad = tl.max((x != x).to(tl.int32), 0)
    top = tl.where(bad > 0, float("nan"), tl.max(x, 0))
    e = tl.where(inside, tl.exp(x - top), 0.0)
    tl.store(out_ptr + row * size + at, e / tl.sum(e, 0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        b, c, h, w = x.shape
        out = torch.empty_like(x)
        softmax_kernel[(b * c,)](x, out, h * w, BLOCK=triton.next_power_of_2(h * w))
        return out
