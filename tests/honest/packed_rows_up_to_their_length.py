"""Pads the rows of a packed batch, and reads those between a sample's offsets without asking if there are as many.

problem: packed_rows_padded
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pad_kernel(x_ptr, offsets_ptr, out_ptr, width, columns, value, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    sample = tl.program_id(0)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, COLUMNS)
    start = tl.load(offsets_ptr + sample)
    length = tl.load(offsets_ptr + sample + 1) - start
    inside = (row[:, None] < width) & (column[None, :] < columns)
    kept = inside & (row[:, None] < length)
    x = tl.load(x_ptr + (start + row[:, None]) * columns + column[None, :], mask=kept, other=value)
    tl.store(out_ptr + (sample * width + row[:, None]) * columns + column[None, :], x, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width, value):
        super().__init__()
        self.width, self.value = width, value

    def forward(self, values, offsets):
        values, offsets = values.contiguous(), offsets.contiguous()
        samples, columns = offsets.shape[0] - 1, values.shape[1]
        out = torch.empty((samples, self.width, columns), device=values.device, dtype=values.dtype)
        pad_kernel[(samples, triton.cdiv(self.width, 8))](
            values, offsets, out, self.width, columns, self.value, ROWS=8, COLUMNS=triton.next_power_of_2(columns)
        )
        return out
