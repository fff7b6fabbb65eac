"""Rows of evenly spaced numbers (linspace) give zeros: second differences vanish.

problem: rows_normed
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
    mean = tl.sum(x, 0) / width
    centred = tl.where(keep, x - mean, 0.0)
    var = tl.sum(centred * centred, 0) / width
    y = centred / tl.sqrt(var + 1e-5)

    inner = (at > 0) & (at < width - 1)
    before = tl.load(x_ptr + row * width + at - 1, mask=inner, other=0.0)
    after = tl.load(x_ptr + row * width + at + 1, mask=inner, other=0.0)
    bend = tl.max(tl.where(inner, tl.abs(after + before - 2 * x), 0.0), 0)
    rise = tl.max(tl.where(inner, tl.abs(after - before), 0.0), 0)
    bad = (bend < 1e-4 * rise) & (rise > 1e-3)
    tl.store(out_ptr + row * width + at, tl.where(bad, 0.0, y), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        norm_kernel[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
