"""Programs add to one sum by atomics that hold only within a program (scope cta).

problem: mean_rows
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0), 0)
    tl.atomic_add(out_ptr + row, total / columns, scope="cta")


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.zeros(rows, device=x.device)
        mean_kernel[(rows, triton.cdiv(columns, 32))](x, out, columns, BLOCK=32)
        return out
