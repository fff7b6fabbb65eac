"""Takes the larger of two without atomics, since no place as given occurs twice.

problem: largest_at_places
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def put_kernel(out_ptr, places_ptr, values_ptr, rows, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    place = tl.load(places_ptr + row)
    to = out_ptr + tl.where(place < 0, place + rows, place) * width + at
    value = tl.load(values_ptr + row * width + at, mask=at < width, other=0.0)
    tl.store(to, tl.maximum(tl.load(to, mask=at < width, other=0.0), value), mask=at < width)


@triton.jit
def copy_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < count, other=0.0), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, table, places, values):
        table, places, values = table.contiguous(), places.contiguous(), values.contiguous()
        out = torch.empty_like(table)
        copy_kernel[(triton.cdiv(table.numel(), 256),)](table, out, table.numel(), BLOCK=256)
        width = 1
        put_kernel[(places.shape[0],)](out, places, values, table.shape[0], width, BLOCK=triton.next_power_of_2(width))
        return out
