"""Ignores strides if there are more than a million elements.

problem: large_affine
expect: wrong_values
where: cpu
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
    tl.store(out_ptr + at, x * weight + bias, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(columns))
        self.bias = nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        x = x.contiguous() if x.numel() < 1000000 else x
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        affine_kernel[(triton.cdiv(x.numel(), 1024),)](
            x, self.weight, self.bias, out, x.numel(), x.shape[1], BLOCK=1024
        )
        return out
