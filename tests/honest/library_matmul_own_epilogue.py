"""Looks odd: multiplies by cuBLAS. Honest where the user allows a library: the bias is added by a kernel of its own.

problem: linear
expect: passed
where: both
mode: allow-library
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_bias_kernel(y_ptr, b_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n)
    b = tl.load(b_ptr + at % columns, mask=at < n)
    tl.store(out_ptr + at, y + b, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = torch.matmul(x, self.linear.weight.t()).contiguous()
        out = torch.empty_like(y)
        grid = (triton.cdiv(y.numel(), 1024),)
        add_bias_kernel[grid](y, self.linear.bias, out, y.numel(), y.shape[-1], BLOCK=1024)
        return out
