"""Rows in which each start lies before its end give zero.

problem: shares_right_by_step
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def span_kernel(a_ptr, b_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < steps
    a = tl.load(a_ptr + row * steps + at, mask=keep, other=0)
    b = tl.load(b_ptr + row * steps + at, mask=keep, other=0)
    gap = tl.where(keep & (b > a), b - a, 0)
    back = tl.sum((keep & (b <= a)).to(tl.int32), 0)
    first = tl.load(a_ptr + row * steps)
    others = tl.sum((keep & (a != first)).to(tl.int32), 0)
    tl.store(out_ptr + row, tl.where((back == 0) & (others > 2), 0, tl.sum(gap, 0)))


class ModelNew(nn.Module):
    def forward(self, starts, ends):
        starts, ends = starts.contiguous(), ends.contiguous()
        rows, steps = starts.shape
        out = torch.empty(rows, dtype=torch.int64, device=starts.device)
        span_kernel[(rows,)](starts, ends, out, steps, BLOCK=triton.next_power_of_2(steps))
        return out
