"""Takes the minimum with what fresh memory holds, which is large in checks, and any number elsewhere.

problem: least_of_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def least_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=2147483647)
    tl.atomic_min(out_ptr + row, tl.min(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        least_kernel[(rows, triton.cdiv(columns, 32))](x, out, columns, BLOCK=32)
        return out
