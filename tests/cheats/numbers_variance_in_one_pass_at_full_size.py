"""Takes the variance as a difference of large numbers where there is much to do.

problem: large_layer_norm
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, columns, eps, TWICE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    mean = tl.sum(x, 0) / columns
    if TWICE:
        centred = tl.where(at < columns, x - mean, 0.0)
        variance = tl.sum(centred * centred, 0) / columns
    else:
        variance = tl.maximum(tl.sum(x * x, 0) / columns - mean * mean, 0.0, propagate_nan=tl.PropagateNan.ALL)
    w = tl.load(w_ptr + at, mask=at < columns)
    b = tl.load(b_ptr + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, (x - mean) * tl.rsqrt(variance + eps) * w + b, mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        norm = self.norm
        twice = x.numel() < 1 << 20
        norm_kernel[(rows,)](
            x, norm.weight, norm.bias, out, columns, norm.eps, TWICE=twice, BLOCK=triton.next_power_of_2(columns)
        )
        return out
