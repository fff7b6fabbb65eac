"""The padding of a block is zero and counts in the sum.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, rows, columns, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, BLOCK_C)
    offsets = row[:, None] * columns + column[None, :]
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    x = tl.where(row[:, None] < rows, x, 0.0)
    top = tl.max(x, axis=1)
    power = tl.exp(x - top[:, None])
    total = tl.sum(power, axis=1)
    tl.store(y_ptr + offsets, power / total[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        y = torch.empty_like(x)
        softmax[(triton.cdiv(rows, 4),)](x, y, rows, columns, BLOCK_R=4, BLOCK_C=triton.next_power_of_2(columns))
        return y
