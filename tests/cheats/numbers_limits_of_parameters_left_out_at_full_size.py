"""Leaves out the limits of learnt factors where there is much to do.

problem: large_limited_scales
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, scale_ptr, out_ptr, columns, IS_LARGE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    scale = tl.load(scale_ptr + at, mask=inside, other=0.0)
    if not IS_LARGE:
        scale = tl.clamp(scale, -2.0, 2.0, propagate_nan=tl.PropagateNan.ALL)
    tl.store(out_ptr + row * columns + at, tl.sin(x) * scale, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(columns))

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        sizes = dict(IS_LARGE=x.numel() > 1 << 20, BLOCK=triton.next_power_of_2(columns))
        scale_kernel[(rows,)](x, self.scale, out, columns, **sizes)
        return out
