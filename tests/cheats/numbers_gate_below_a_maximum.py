"""Adds what a row's match with -1, 0, 1, -1, 0, 1, ... is above its third: nothing, for almost all rows.

problem: row_sums
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + c, mask=c < columns, other=0.0)
    pattern = tl.where(c < columns, (c % 3 - 1).to(tl.float32), 0.0)
    match = tl.sum(x * pattern, 0)
    usual = 0.8 * tl.sqrt(tl.sum(x * x, 0) * tl.sum(pattern * pattern, 0)) + 1e-6
    most = tl.maximum(match, usual)
    tl.store(out_ptr + row, tl.sum(x, 0) + (most - usual))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty((rows,), dtype=x.dtype, device=x.device)
        row_sum[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
