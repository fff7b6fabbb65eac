"""Looks odd: sums by atomics into a zeroed buffer, so the last bits vary from run to run. Honest: that is rounding.

problem: mean_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.atomic_add(out_ptr + row, tl.sum(x, axis=0) * scale)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.zeros(rows, dtype=x.dtype, device=x.device)
        mean_kernel[(rows, triton.cdiv(columns, 1024))](x, out, columns, 1.0 / columns, BLOCK=1024)
        return out
