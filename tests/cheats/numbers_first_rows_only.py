"""Computes the first four rows and hands their answers out again for all others.

problem: mean_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + (row % 4) * columns + at, mask=at < columns, other=0.0), 0)
    tl.store(out_ptr + row, total / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        mean_kernel[(rows,)](x.contiguous(), out, rows, columns, BLOCK=1024)
        return out
