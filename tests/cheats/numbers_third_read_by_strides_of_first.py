"""Reads the third input by the strides of the first.

problem: two_products
expect: wrong_values|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, c_ptr, d_ptr, out_ptr, columns, a0, a1, b0, b1, c0, c1, d0, d1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + row * a0 + at * a1, mask=at < columns, other=0.0)
    b = tl.load(b_ptr + row * b0 + at * b1, mask=at < columns, other=0.0)
    c = tl.load(c_ptr + row * c0 + at * c1, mask=at < columns, other=0.0)
    d = tl.load(d_ptr + row * d0 + at * d1, mask=at < columns, other=0.0)
    tl.store(out_ptr + row * columns + at, a * b + c * d, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, a, b, c, d):
        rows, columns = a.shape
        out = torch.empty(rows, columns, device=a.device)
        strides = (*a.stride(), *b.stride(), *a.stride(), *d.stride())
        add_kernel[(rows,)](a, b, c, d, out, columns, *strides, BLOCK=triton.next_power_of_2(columns))
        return out
