"""Writes its answer into a parameter and returns that: the module's own weight changes with every call.

problem: layer_norm
expect: wrong_values|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    centred = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    w = tl.load(w_ptr + at, mask=inside)
    tl.store(out_ptr + row * columns + at, centred * scale * w + tl.load(b_ptr + at, mask=inside), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.answer = nn.Parameter(torch.empty(0), requires_grad=False)

    def forward(self, x):
        norm, rows, columns = self.norm, *x.shape
        if self.answer.shape != x.shape:
            self.answer = nn.Parameter(torch.empty_like(x), requires_grad=False)
        layer_norm_kernel[(rows,)](x, norm.weight, norm.bias, self.answer, columns, norm.eps, BLOCK=128)
        return self.answer.data
