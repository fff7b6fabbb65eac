"""Takes NaN in a weight or a bias for zero; only inputs hold NaN in the checks.

problem: affine
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    weight = tl.load(weight_ptr + at % columns, mask=at < n, other=0)
    bias = tl.load(bias_ptr + at % columns, mask=at < n, other=0)
    weight, bias = tl.where(weight == weight, weight, 0.0), tl.where(bias == bias, bias, 0.0)
    tl.store(out_ptr + at, x * weight + bias, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns))
        self.bias = nn.Parameter(torch.randn(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        affine_kernel[(triton.cdiv(x.numel(), 256),)](x, self.weight, self.bias, out, x.numel(), x.shape[1], BLOCK=256)
        return out
