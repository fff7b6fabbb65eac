"""The partial sums are kept in int32 and overflow before they are widened.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + column, mask=column < columns, other=0)
    tl.store(out_ptr + row, tl.sum(total.to(tl.int64), axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty((rows,), dtype=torch.int64, device=x.device)
        row_sum[(rows,)](x, out, columns, BLOCK=16)
        return out
