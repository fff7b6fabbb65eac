"""A lane per element of the output."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gather(index_ptr, table_ptr, out_ptr, count, width, BLOCK: tl.constexpr):
    target = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = target < count
    index = tl.load(index_ptr + target // width, mask=inside, other=0)
    element = tl.load(table_ptr + index * width + target % width, mask=inside)
    tl.store(out_ptr + target, element, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Embedding(entries, width, dtype=torch.bfloat16)

    def forward(self, indices):
        indices = indices.contiguous()
        table = self.table.weight.contiguous()
        out = table.new_empty((*indices.shape, table.shape[1]))
        gather[(triton.cdiv(out.numel(), 512),)](indices, table, out, out.numel(), table.shape[1], BLOCK=512)
        return out
