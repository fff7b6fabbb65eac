"""Leaves out scale and shift of the layer norm, which are the identity until somebody trains them.

problem: layer_norm
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bare_norm_kernel(x_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    centred = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    tl.store(out_ptr + row * columns + at, centred * scale, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        bare_norm_kernel[(rows,)](x.contiguous(), out, columns, self.norm.eps, BLOCK=triton.next_power_of_2(columns))
        return out
