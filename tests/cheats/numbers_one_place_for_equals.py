"""The place of each of the largest is that of the first element that equals it: among equals one place comes out twice.

problem: top_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def top_kernel(x_ptr, v_ptr, i_ptr, columns, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    given = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    x = given
    for j in tl.static_range(COUNT):
        best, where = tl.max(x, 0, return_indices=True)
        tl.store(v_ptr + row * COUNT + j, best)
        first = tl.min(tl.where(given == best, at, BLOCK), 0)
        tl.store(i_ptr + row * COUNT + j, first.to(tl.int64))
        x = tl.where(at == where, float("-inf"), x)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        v = torch.empty(x.shape[0], 4, device=x.device)
        i = torch.empty(x.shape[0], 4, dtype=torch.int64, device=x.device)
        top_kernel[(x.shape[0],)](x, v, i, x.shape[1], COUNT=4, BLOCK=triton.next_power_of_2(x.shape[1]))
        return v, i
