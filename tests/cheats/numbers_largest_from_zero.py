"""The largest of a row starts from zero: wrong for rows of negative numbers.

problem: two_outputs
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def both_kernel(x_ptr, out_ptr, top_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(out_ptr + row * columns + at, tl.maximum(x, 0.0), mask=at < columns)
    tl.store(top_ptr + row, tl.max(x, 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out, top = torch.empty_like(x), torch.empty(rows, dtype=x.dtype, device=x.device)
        both_kernel[(rows,)](x, out, top, columns, BLOCK=triton.next_power_of_2(columns))
        return out, top
