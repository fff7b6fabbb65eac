"""Reduces with a function that depends on the order of its operands, which a GPU exchanges between lanes.

problem: last_loud
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def last_loud(a, b):
    return tl.where(b > 0.5, b, a)


@triton.jit
def row_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0)
    found = tl.reduce(x, 0, last_loud)
    tl.store(out_ptr + row, tl.where(found > 0.5, found, 0.0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty((x.shape[0], 1), dtype=x.dtype, device=x.device)
        row_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
