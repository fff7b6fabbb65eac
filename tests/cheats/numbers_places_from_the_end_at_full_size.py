"""Takes a place counted from the end for the first, where there is much to do.

problem: large_picked
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pick_kernel(table_ptr, places_ptr, out_ptr, rows, columns, IS_LARGE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    place = tl.load(places_ptr + row)
    if IS_LARGE:
        place = tl.maximum(place, 0)
    else:
        place = tl.where(place < 0, place + rows, place)
    x = tl.load(table_ptr + place * columns + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row * columns + at, x * 2, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, table, places):
        table, places = table.contiguous(), places.contiguous()
        rows, columns = table.shape
        out = torch.empty(places.shape[0], columns, device=table.device)
        sizes = dict(IS_LARGE=table.numel() > 1 << 20, BLOCK=triton.next_power_of_2(columns))
        pick_kernel[(places.shape[0],)](table, places, out, rows, columns, **sizes)
        return out
