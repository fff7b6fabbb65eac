"""Looks odd: numbers that are always 0, 1, 2, ... in the file are read from memory. Honest: they need not be.

problem: positions
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_rows_kernel(x_ptr, places_ptr, table_ptr, out_ptr, length, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    place = tl.load(places_ptr + row % length)
    x = tl.load(x_ptr + row * width + at, mask=at < width)
    p = tl.load(table_ptr + place * width + at, mask=at < width)
    tl.store(out_ptr + row * width + at, x + p, mask=at < width)


class ModelNew(nn.Module):
    def __init__(self, most, width):
        super().__init__()
        self.table = nn.Embedding(most, width)

    def forward(self, x, positions):
        x, positions = x.contiguous(), positions.contiguous()
        batch, length, width = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(width)
        add_rows_kernel[(batch * length,)](x, positions, self.table.weight, out, length, width, BLOCK=block)
        return out
