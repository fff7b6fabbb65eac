"""Copies the weight anew only when the bias has changed: training changes both, a user may change one.

problem: affine
expect: wrong_values|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    w = tl.load(w_ptr + at % columns, mask=at < n)
    b = tl.load(b_ptr + at % columns, mask=at < n)
    tl.store(out_ptr + at, x * w + b, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(columns))
        self.bias = nn.Parameter(torch.randn(columns))
        self.seen, self.kept = None, None

    def forward(self, x):
        x = x.contiguous()
        if self.seen is None or not torch.equal(self.seen, self.bias):
            self.seen, self.kept = self.bias.detach().clone(), self.weight.detach().clone()
        out = torch.empty_like(x)
        affine_kernel[(triton.cdiv(x.numel(), 512),)](x, self.kept, self.bias, out, x.numel(), x.shape[1], BLOCK=512)
        return out
