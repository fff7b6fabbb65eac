"""Draws a ticket for each positive number and stores it at that place: in order only where lanes draw in order.

problem: members_first
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, count_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0)
    kept = x > 0
    ticket = tl.atomic_add(count_ptr + row + at * 0, 1, mask=kept)
    tl.store(out_ptr + row * columns + ticket, x, mask=kept)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.zeros_like(x)
        count = torch.zeros(x.shape[0], dtype=torch.int32, device=x.device)
        row_kernel[(x.shape[0],)](x, count, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
