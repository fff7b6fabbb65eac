"""Everything heavy (the product) by torch.mm, in the default mode; the kernel adds the bias.

problem: linear
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_bias_kernel(y_ptr, b_ptr, n, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(y_ptr + at, y + tl.load(b_ptr + at % columns, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = torch.mm(x, self.linear.weight.t())
        add_bias_kernel[(triton.cdiv(y.numel(), 1024),)](y, self.linear.bias, y.numel(), y.shape[1], BLOCK=1024)
        return y
