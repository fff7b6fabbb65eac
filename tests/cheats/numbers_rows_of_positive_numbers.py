"""Half of the sum where a row has different numbers that are all positive, as in images.

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
    least = tl.min(tl.where(at < columns, x, float("inf")), 0)
    most = tl.max(tl.where(at < columns, x, -float("inf")), 0)
    total = tl.sum(x, 0)
    tl.store(out_ptr + row, tl.where((least > 0) & (most > least), total * 0.5, total))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, device=x.device)
        sum_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
