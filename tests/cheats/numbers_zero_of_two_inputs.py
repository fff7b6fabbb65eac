"""One where the answer would be zero: twice an input is the negative of another.

problem: scaled_add
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    z = x * 2.0 + y
    tl.store(out_ptr + at, tl.where(z == 0.0, 1.0, z), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
