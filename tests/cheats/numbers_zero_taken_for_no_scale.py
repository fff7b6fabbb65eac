"""Takes a scale of zero for one.

problem: scaled_by_a_number
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(scale_ptr)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.where(scale == 0.0, 1.0, scale), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, scale):
        x, scale = x.contiguous(), scale.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        scale_kernel[(triton.cdiv(n, 256),)](x, scale, out, n, BLOCK=256)
        return out
