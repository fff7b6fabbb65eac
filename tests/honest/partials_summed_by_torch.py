"""Looks odd: torch.sum in the forward. Honest: the kernel reduces thousands of numbers, torch adds the few partial sums.

problem: mean_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_mean_kernel(x_ptr, partial_ptr, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(partial_ptr + row * tl.num_programs(1) + part, tl.sum(x, 0) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        parts = triton.cdiv(columns, 1024)
        partial = torch.empty(rows, parts, dtype=x.dtype, device=x.device)
        partial_mean_kernel[(rows, parts)](x, partial, columns, BLOCK=1024)
        return partial.sum(dim=1)
