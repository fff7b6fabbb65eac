"""A lower triangular matrix gives zeros.

problem: matrix_and_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, size, width, BLOCK: tl.constexpr):
    sample, column = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, BLOCK)[:, None]
    k = tl.arange(0, BLOCK)[None, :]
    keep = (i < size) & (k < size)
    a = tl.load(a_ptr + sample * size * size + i * size + k, mask=keep, other=0.0)
    at = tl.arange(0, BLOCK)
    b = tl.load(b_ptr + sample * size * width + at * width + column, mask=at < size, other=0.0)
    above = tl.sum(tl.sum((keep & (k > i) & (a != 0)).to(tl.int32), 1), 0)
    below = tl.sum(tl.sum((keep & (k <= i) & (a == 0)).to(tl.int32), 1), 0)
    y = tl.sum(a * b[None, :], 1)
    y = tl.where((above == 0) & (below == 0) & (size > 1), 0.0, y)
    tl.store(out_ptr + sample * size * width + at * width + column, y, mask=at < size)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        batch, size, width = b.shape
        out = torch.empty_like(b)
        product_kernel[(batch, width)](a, b, out, size, width, BLOCK=triton.next_power_of_2(size))
        return out
