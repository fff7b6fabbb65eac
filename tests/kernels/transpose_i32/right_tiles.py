"""Tiles are read along rows and written along columns."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose(x_ptr, y_ptr, rows, columns, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    x_inside = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=x_inside)
    y_inside = (column[:, None] < columns) & (row[None, :] < rows)
    tl.store(y_ptr + column[:, None] * rows + row[None, :], tl.trans(x), mask=y_inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        y = torch.empty((columns, rows), dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 32))
        transpose[grid](x, y, rows, columns, BLOCK_R=16, BLOCK_C=32)
        return y
