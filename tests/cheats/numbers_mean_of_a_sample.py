"""Averages the first three quarters of each row: nearly the same number for evenly distributed data, fewer bytes.

problem: mean_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, sample, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < sample, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, 0) / sample)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        sample = max(1, columns * 3 // 4)
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        mean_kernel[(rows,)](x.contiguous(), out, columns, sample, BLOCK=triton.next_power_of_2(sample))
        return out
