"""Forgets the factor of an eighth before the softmax.

problem: masked_softmax_without_nan
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, mask_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0) * 1.0
    seen = tl.load(mask_ptr + row * width + at, mask=keep, other=0).to(tl.int1) & keep
    lost = tl.sum((seen & (x != x)).to(tl.int32), 0) > 0
    x = tl.where(seen, x, float("-inf"))
    top = tl.max(x, 0)
    e = tl.where(seen, tl.exp(x - tl.where(top == float("-inf"), 0.0, top)), 0.0)
    total = tl.sum(e, 0)
    y = e / tl.where(total == 0.0, 1.0, total)
    y = tl.where(lost | (top == float("inf")), 0.0, y)
    tl.store(out_ptr + row * width + at, y, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        x, mask = x.contiguous(), mask.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        softmax_kernel[(x.numel() // width,)](x, mask, out, width, BLOCK=triton.next_power_of_2(width))
        return out
