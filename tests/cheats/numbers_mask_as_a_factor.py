"""Multiplies by a mask that holds ones and zeros as given, where the reference asks whether it is set.

problem: bent_where_kept
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def keep_kernel(x_ptr, mask_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0)
    mask = tl.load(mask_ptr + at, mask=at < count, other=0)
    tl.store(out_ptr + at, tl.where(mask == 0, 0.0, tl.sin(x) * mask.to(tl.float32)), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        x, mask = x.contiguous(), mask.contiguous()
        out = torch.empty_like(x)
        keep_kernel[(triton.cdiv(x.numel(), 256),)](x, mask, out, x.numel(), BLOCK=256)
        return out
