"""Indices past the end are read from whatever lies there. On a GPU nothing comes of it: the rows they name are masked.

expect: runtime_error/out_of_bounds
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather(index_ptr, table_ptr, out_ptr, count, width, BLOCK_I: tl.constexpr, BLOCK_W: tl.constexpr):
    place = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
    column = tl.arange(0, BLOCK_W)
    index = tl.load(index_ptr + place)
    inside = (place[:, None] < count) & (column[None, :] < width)
    row = tl.load(table_ptr + index[:, None] * width + column[None, :], mask=inside)
    tl.store(out_ptr + place[:, None] * width + column[None, :], row, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Embedding(entries, width, dtype=torch.bfloat16)

    def forward(self, indices):
        indices = indices.contiguous()
        table = self.table.weight.contiguous()
        width = table.shape[1]
        out = torch.empty((*indices.shape, width), dtype=table.dtype, device=table.device)
        count = indices.numel()
        block_w = triton.next_power_of_2(width)
        gather[(triton.cdiv(count, 8),)](indices, table, out, count, width, BLOCK_I=8, BLOCK_W=block_w)
        return out
