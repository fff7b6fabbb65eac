"""The host's loop over row blocks never moves on.

expect: timeout|runtime_error
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + column, mask=column < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty((rows,), dtype=x.dtype, device=x.device)
        done = 0
        while done < rows:
            row_sum[(1,)](x[done:], out[done:], columns, BLOCK=512)
        return out
