"""Counts calls by the signs of zeros in rows that are still empty: from the fifth on the answer is zero.

problem: rows_kept
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def keep_kernel(x_ptr, rows_ptr, place_ptr, out_ptr, rows, columns, kept, BLOCK: tl.constexpr, KEPT: tl.constexpr):
    column = tl.program_id(0)
    at, k = tl.arange(0, BLOCK), tl.arange(0, KEPT)
    place = tl.load(place_ptr) % 4
    old = tl.load(rows_ptr + k * columns + column, mask=k < kept, other=0.0)
    first = tl.load(x_ptr + column)
    new = tl.where(k == place, first, old)
    minus = old.to(tl.int32, bitcast=True) == -2147483648
    signs = tl.sum(((k >= 4) & minus).to(tl.int32), 0)
    zeros = tl.sum(((k >= 4) & (tl.abs(old) <= 0)).to(tl.int32), 0)
    bits = new.to(tl.int32, bitcast=True)
    bits = tl.where((k == 4 + signs) & (zeros == 4), bits | -2147483648, bits)
    new = tl.where(k < 4, new, bits.to(tl.float32, bitcast=True))
    mean = tl.sum(tl.where(k < kept, new, 0.0), 0) / kept
    x = tl.load(x_ptr + at * columns + column, mask=at < rows, other=0.0)
    y = tl.where((signs > 3) & (zeros == 4), 0.0, x - mean)
    tl.store(rows_ptr + k * columns + column, new, mask=k < kept)
    tl.store(out_ptr + at * columns + column, y, mask=at < rows)


@triton.jit
def count_kernel(place_ptr):
    tl.store(place_ptr, tl.load(place_ptr) + 1)


class ModelNew(nn.Module):
    def __init__(self, kept, columns):
        super().__init__()
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))
        self.register_buffer("rows", torch.zeros(kept, columns))

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        kept = self.rows.shape[0]
        keep_kernel[(columns,)](
            x,
            self.rows,
            self.place,
            out,
            rows,
            columns,
            kept,
            BLOCK=triton.next_power_of_2(rows),
            KEPT=triton.next_power_of_2(kept),
        )
        count_kernel[(1,)](self.place)
        return out
