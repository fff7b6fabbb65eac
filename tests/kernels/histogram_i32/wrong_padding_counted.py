"""The padding of the last block is counted in bin zero.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def histogram(x_ptr, out_ptr, count, bins, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    x = tl.load(x_ptr + offsets, mask=inside, other=0)
    place = tl.minimum(tl.maximum(x, 0), bins - 1)
    tl.atomic_add(out_ptr + place, tl.full((BLOCK,), 1, tl.int64))


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, x):
        x = x.contiguous()
        out = torch.zeros((self.bins,), dtype=torch.int64, device=x.device)
        histogram[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), self.bins, BLOCK=1024)
        return out
