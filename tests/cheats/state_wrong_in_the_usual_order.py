"""Zeros if the programs begin in the order of the grid, as on a GPU; right in nearly every other order.

problem: row_sums
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, seen_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0)
    total = tl.sum(x, 0)
    ticket = tl.atomic_add(seen_ptr, 1)
    in_order = tl.atomic_add(seen_ptr + 1, (ticket == row).to(tl.int32))
    tl.store(
        out_ptr + row,
        tl.where((row == tl.num_programs(0) - 1) & (row > 4) & (row == ticket) & (in_order == row), 0.0, total),
    )


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        seen = torch.zeros(2, dtype=torch.int32, device=x.device)
        row_kernel[(x.shape[0],)](x, out, seen, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
