"""The mask is one short, so that the last element of a row is never seen.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_any(x_ptr, out_ptr, rows, columns, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, BLOCK_C)
    inside = (row[:, None] < rows) & (column[None, :] < columns - 1)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0)
    tl.store(out_ptr + row, tl.max(x.to(tl.int32), axis=1) > 0, mask=row < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty((rows,), dtype=torch.bool, device=x.device)
        row_any[(triton.cdiv(rows, 8),)](x, out, rows, columns, BLOCK_R=8, BLOCK_C=triton.next_power_of_2(columns))
        return out
