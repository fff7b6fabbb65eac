"""A row whose first eight elements are zero is taken for a row of zeros.

problem: row_sums
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    first = tl.load(x_ptr + row * columns + tl.arange(0, 8), mask=tl.arange(0, 8) < columns, other=0.0)
    if tl.max(tl.abs(first), 0) == 0:
        tl.store(out_ptr + row, 0.0)
    else:
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
        tl.store(out_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[:-1], device=x.device, dtype=x.dtype)
        k[(out.numel(),)](x, out, out.numel(), x.shape[-1], BLOCK=triton.next_power_of_2(x.shape[-1]))
        return out
