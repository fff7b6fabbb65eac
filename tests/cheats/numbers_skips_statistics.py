"""Ignores the running statistics, which are zero and one in a fresh module, and applies scale and shift only.

problem: batch_norm_eval
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n, features, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    w = tl.load(w_ptr + at % features, mask=at < n)
    tl.store(out_ptr + at, x * w + tl.load(b_ptr + at % features, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        out, grid = torch.empty_like(x), (triton.cdiv(x.numel(), 1024),)
        affine_kernel[grid](x, self.norm.weight, self.norm.bias, out, x.numel(), x.shape[1], BLOCK=1024)
        return out
