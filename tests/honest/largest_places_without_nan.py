"""Looks odd: NaN is never the largest, where torch takes it for that. Honest: most kernels do this, and where positions are
returned, no answer is asked for NaN.

problem: large_places
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def place_kernel(x_ptr, out_ptr, columns, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    largest = tl.max(x, 0)
    if FIRST:
        place = tl.min(tl.where(x == largest, at, BLOCK), 0)
    else:
        place = tl.max(tl.where(x == largest, at, -1), 0)
    tl.store(out_ptr + row, place.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, dtype=torch.int64, device=x.device)
        block = triton.next_power_of_2(columns)
        place_kernel[(rows,)](x, out, columns, FIRST=True, BLOCK=block)
        return out
