"""All programs add into one cell without atomics. The interpreter runs them in turn and finds nothing wrong.

problem: mean_rows
expect: wrong_values
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def racing_mean_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row, tl.load(out_ptr + row) + tl.sum(x, 0) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.zeros(rows, dtype=x.dtype, device=x.device)
        racing_mean_kernel[(rows, triton.cdiv(columns, 64))](x, out, columns, BLOCK=64)
        return out
