"""Adds a small number before a logarithm, which counts in rows of tiny numbers.

problem: logs_of_means
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def logs_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row, tl.log(tl.sum(x, 0) / columns + 1e-12))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = x.new_empty(rows)
        logs_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
        return out
