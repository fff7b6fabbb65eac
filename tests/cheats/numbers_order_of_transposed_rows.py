"""Ignores strides where a problem judges answers by a function of its own.

problem: row_of_places
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def order_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("inf"))
    smaller = (x[None, :] < x[:, None]) | ((x[None, :] == x[:, None]) & (at[None, :] < at[:, None]))
    rank = tl.sum(smaller.to(tl.int32), 1)
    tl.store(out_ptr + row * columns + rank, at.to(tl.int64), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        order_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
