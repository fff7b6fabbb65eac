"""Looks odd: converts to another dtype inside the kernel. Honest: upwards, to sum in float64.

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
    acc = tl.zeros((BLOCK,), dtype=tl.float64)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0).to(tl.float64)
    tl.store(out_ptr + row, (tl.sum(acc, 0) / columns).to(tl.float32))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        mean_kernel[(rows,)](x, out, columns, BLOCK=1024)
        return out
