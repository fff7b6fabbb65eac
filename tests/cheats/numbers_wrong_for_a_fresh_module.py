"""Halves the answer of a module as it is constructed, whose scales are all equal and whose shifts are zero.

problem: layer_norm
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(x, 0) / columns
    off = tl.where(inside, x - mean, 0.0)
    y = off / tl.sqrt(tl.sum(off * off, 0) / columns + eps)
    weight = tl.load(weight_ptr + at, mask=inside, other=1.0)
    bias = tl.load(bias_ptr + at, mask=inside, other=0.0)
    y = y * weight + bias
    is_fresh = (tl.max(tl.abs(bias), 0) == 0) & (tl.max(tl.abs(weight - 1.0), 0) == 0)
    tl.store(out_ptr + row * columns + at, tl.where(is_fresh, y * 0.5, y), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        columns = x.shape[-1]
        norm_kernel[(x.numel() // columns,)](
            x, self.norm.weight, self.norm.bias, out, columns, 1e-5, BLOCK=triton.next_power_of_2(columns)
        )
        return out
