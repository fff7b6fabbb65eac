"""Takes the positions for 0, 1, 2, ... as they are in the file, and never reads them.

problem: positions
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_rows_kernel(x_ptr, table_ptr, out_ptr, length, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + at, mask=at < width)
    p = tl.load(table_ptr + (row % length) * width + at, mask=at < width)
    tl.store(out_ptr + row * width + at, x + p, mask=at < width)


class ModelNew(nn.Module):
    def __init__(self, most, width):
        super().__init__()
        self.table = nn.Embedding(most, width)

    def forward(self, x, positions):
        x = x.contiguous()
        out = torch.empty_like(x)
        add_rows_kernel[(x.shape[0] * x.shape[1],)](
            x, self.table.weight, out, x.shape[1], x.shape[2], BLOCK=triton.next_power_of_2(x.shape[2])
        )
        return out
