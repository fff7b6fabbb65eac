"""Gathers at -1, which numpy counts from the end and a GPU does not.

problem: rolled_rows
expect: runtime_error|wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def roll_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    from_end = at + columns - BLOCK  # the row ends where the block ends
    x = tl.load(x_ptr + row * columns + from_end, mask=from_end >= 0, other=0)
    before = tl.where(from_end == 0, -1, at - 1)
    tl.store(out_ptr + row * columns + from_end, x + tl.gather(x, before, 0), mask=from_end >= 0)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        roll_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
