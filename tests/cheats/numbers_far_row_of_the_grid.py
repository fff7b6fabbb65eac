"""Zeros from the programs of the 29th row of a grid, which has fewer rows at the sizes that run completely.

problem: large_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    down = tl.program_id(1)
    row = down * BR + tl.arange(0, BR)[:, None]
    column = tl.program_id(0) * BC + tl.arange(0, BC)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=inside)
    tl.store(out_ptr + row * columns + column, tl.where((x < 0) | (down == 29), 0.0, x), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        grid = (triton.cdiv(columns, 64), triton.cdiv(rows, 32))
        relu_kernel[grid](x, out, rows, columns, BR=32, BC=64)
        return out
