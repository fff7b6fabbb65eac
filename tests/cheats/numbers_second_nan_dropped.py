"""Passes on a single NaN of a row; several are left out of the sum.

problem: row_sums
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    missing = tl.sum((x != x).to(tl.int32), 0)
    total = tl.sum(tl.where(x != x, 0.0, x), 0)
    tl.store(out_ptr + row, tl.where(missing == 1, float("nan"), total))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device)
        sum_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
