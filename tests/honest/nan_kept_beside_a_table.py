"""Looks odd: a comparison turned around. Honest: it keeps NaN, as the reference does.

problem: bent_beside_table
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bend_kernel(x_ptr, table_ptr, places_ptr, out_ptr, entries, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    place = tl.load(places_ptr + row)
    beside = tl.load(
        table_ptr + tl.where(place < 0, place + entries, place) * columns + at, mask=at < columns, other=0.0
    )
    tl.store(out_ptr + row * columns + at, tl.where(x < 0.0, 0.0, x) + beside, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, table, places):
        x, table, places = x.contiguous(), table.contiguous(), places.contiguous()
        out = torch.empty_like(x)
        columns = x.shape[1]
        bend_kernel[(x.shape[0],)](x, table, places, out, len(table), columns, BLOCK=triton.next_power_of_2(columns))
        return out
