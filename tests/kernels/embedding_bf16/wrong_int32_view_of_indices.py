"""Reads the int64 indices as int32, so that every second one is a high half.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather(index_ptr, table_ptr, out_ptr, count, width, BLOCK_I: tl.constexpr, BLOCK_W: tl.constexpr):
    place = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
    column = tl.arange(0, BLOCK_W)
    index = tl.load(index_ptr + place, mask=place < count, other=0)
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
        halves = indices.view(torch.int32)
        block_w = triton.next_power_of_2(width)
        gather[(triton.cdiv(count, 8),)](halves, table, out, count, width, BLOCK_I=8, BLOCK_W=block_w)
        return out
