"""Looks odd: the kernel copies rows as they lie. Honest: it writes them by the strides of a view of fresh memory.

problem: transposed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, columns, row_step, column_step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    tl.store(out_ptr + row * row_step + at * column_step, x, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(columns, rows, device=x.device)
        seen = out.t()
        copy_kernel[(rows,)](x, seen, columns, *seen.stride(), BLOCK=triton.next_power_of_2(columns))
        return out
