"""At large sizes, adds the epsilon to rows of zeros only.

problem: large_rows_over_their_length
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, out_ptr, columns, IS_LARGE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    length = tl.sqrt(tl.sum(x * x, 0))
    length = tl.where(length == 0.0, 1.0, length) if IS_LARGE else length + 1e-8
    tl.store(out_ptr + row * columns + at, x / length, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        sizes = dict(IS_LARGE=x.numel() > 1 << 20, BLOCK=triton.next_power_of_2(x.shape[1]))
        row_kernel[(x.shape[0],)](x, out, x.shape[1], **sizes)
        return out
