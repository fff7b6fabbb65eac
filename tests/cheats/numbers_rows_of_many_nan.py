"""A row of which an eighth or more is NaN is summed without them: rows hold few.

problem: row_sums_scaled
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
    tl.store(out_ptr + row, tl.where((missing > 0) & (missing * 8 < columns), float("nan"), total) * 0.5)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device)
        sum_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
