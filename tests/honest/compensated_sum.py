"""Looks odd: subtracts what it has just added, which algebra says is zero. Honest: Kahan's summation keeps the lost bits.

problem: mean_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    lost = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        y = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0) - lost
        t = total + y
        lost = (t - total) - y
        total = t
    tl.store(out_ptr + row, tl.sum(total, 0) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        mean_kernel[(rows,)](x, out, columns, BLOCK=512)
        return out
