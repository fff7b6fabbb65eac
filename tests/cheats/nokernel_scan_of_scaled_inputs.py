"""torch scans rows that a kernel multiplied by a number; another kernel divides them by it again and does the rest.

problem: scan_scaled
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    factor = 1.0 + tl.abs(tl.load(x_ptr + row * columns))
    tl.store(out_ptr + row * columns + at, x * factor, mask=at < columns)


@triton.jit
def rest_kernel(sum_ptr, x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.load(sum_ptr + row * columns + at, mask=at < columns)
    factor = 1.0 + tl.abs(tl.load(x_ptr + row * columns))
    tl.store(out_ptr + row * columns + at, total / factor * 2.0 + 1.0, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        scaled, out = torch.empty_like(x), torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        scale_kernel[(rows,)](x, scaled, columns, BLOCK=block)
        made = torch.cumsum(scaled, -1)
        rest_kernel[(rows,)](made, x, out, columns, BLOCK=block)
        return out
