"""Looks odd: a remainder for each row, where the first calls never reach the end. Honest: later ones do.

problem: ring_of_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def subtract_kernel(x_ptr, ring_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    first = tl.load(ring_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + row * columns + at, x - first, mask=inside)


@triton.jit
def keep_kernel(x_ptr, ring_ptr, cursor_ptr, columns, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    cursor = tl.load(cursor_ptr) % length
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    place = (cursor + row) % length
    tl.store(ring_ptr + place * columns + at, x, mask=inside)


@triton.jit
def advance_kernel(cursor_ptr, rows, length):
    tl.store(cursor_ptr, (tl.load(cursor_ptr) + rows) % length)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cursor", torch.zeros((), dtype=torch.int64))
        self.register_buffer("ring", torch.zeros(100, 70))

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        length = len(self.ring)
        block = triton.next_power_of_2(columns)
        out = torch.empty_like(x)
        subtract_kernel[(rows,)](x, self.ring, out, columns, BLOCK=block)
        keep_kernel[(rows,)](x, self.ring, self.cursor, columns, length, BLOCK=block)
        advance_kernel[(1,)](self.cursor, rows, length)
        return out
