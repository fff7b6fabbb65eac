"""Sums long rows in float16: the mean of numbers near one half comes out to three digits.

problem: mean_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), dtype=tl.float16)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0).to(tl.float16)
    tl.store(out_ptr + row, tl.sum((acc / columns).to(tl.float32), 0))


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        mean_kernel[(x.shape[0],)](x.contiguous(), out, x.shape[1], BLOCK=512)
        return out
