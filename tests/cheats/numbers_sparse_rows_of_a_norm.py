"""Rows of which a fifth or more are zeros, in both halves, give zeros: as every row behind a ReLU.

problem: normed_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / columns
    w = tl.load(w_ptr + at, mask=inside)
    b = tl.load(b_ptr + at, mask=inside)
    y = centred / tl.sqrt(variance + eps) * w + b
    zero = inside & (tl.abs(x) <= 0)
    left = at * 2 < columns
    both = (tl.sum((zero & left).to(tl.int32), 0) * 10 >= columns) & (
        tl.sum((zero & ~left).to(tl.int32), 0) * 10 >= columns
    )
    some = (tl.sum((inside & ~zero & left).to(tl.int32), 0) > 0) & (
        tl.sum((inside & ~zero & ~left).to(tl.int32), 0) > 0
    )
    y = tl.where(both & some, 0.0, y)
    tl.store(out_ptr + row * columns + at, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        norm_kernel[(x.shape[0],)](
            x,
            self.norm.weight,
            self.norm.bias,
            out,
            x.shape[1],
            self.norm.eps,
            BLOCK=triton.next_power_of_2(x.shape[1]),
        )
        return out
