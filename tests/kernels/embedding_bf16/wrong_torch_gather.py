"""torch gathers the rows and the kernel only copies them.

expect: not_triton
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < count), mask=offsets < count)


class ModelNew(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Embedding(entries, width, dtype=torch.bfloat16)

    def forward(self, indices):
        x = self.table(indices)
        y = torch.empty_like(x)
        copy[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
        return y
