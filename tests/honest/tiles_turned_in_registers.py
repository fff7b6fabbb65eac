"""Looks odd: writes where it has not read. Honest: each tile is turned, and the output lies row by row.

problem: turned_and_doubled
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn_kernel(x_ptr, out_ptr, rows, columns, TILE: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    turned = (column[:, None] < columns) & (row[None, :] < rows)
    tl.store(out_ptr + column[:, None] * rows + row[None, :], 2.0 * tl.trans(x), mask=turned)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(columns, rows, device=x.device)
        turn_kernel[(triton.cdiv(rows, 16), triton.cdiv(columns, 16))](x, out, rows, columns, TILE=16)
        return out
