"""Looks odd: asks for the last stride alone before it copies. Honest: the kernel goes from row to row by the first one.

problem: two_matrices
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mix_kernel(x_ptr, y_ptr, out_ptr, x_step, y_step, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * x_step + at, mask=inside)
    y = tl.load(y_ptr + row * y_step + at, mask=inside)
    tl.store(out_ptr + row * columns + at, x * y + x, mask=inside)


def with_dense_rows(x):
    return x if x.stride(-1) == 1 else x.contiguous()


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = with_dense_rows(x), with_dense_rows(y)
        rows, columns = x.shape
        out = torch.empty(x.shape, device=x.device)
        block = triton.next_power_of_2(columns)
        mix_kernel[(rows,)](x, y, out, x.stride(0), y.stride(0), columns, BLOCK=block)
        return out
