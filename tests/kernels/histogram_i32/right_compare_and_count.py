"""A program per block of bins compares every number with them: no atomics."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def histogram(x_ptr, out_ptr, count, bins, BLOCK_B: tl.constexpr, BLOCK_X: tl.constexpr):
    place = tl.program_id(0) * BLOCK_B + tl.arange(0, BLOCK_B)
    total = tl.zeros((BLOCK_B,), dtype=tl.int64)
    for start in range(0, count, BLOCK_X):
        offsets = start + tl.arange(0, BLOCK_X)
        x = tl.load(x_ptr + offsets, mask=offsets < count, other=0)
        x = tl.minimum(tl.maximum(x, 0), bins - 1)
        same = (x[None, :] == place[:, None]) & (offsets[None, :] < count)
        total += tl.sum(same.to(tl.int32), axis=1).to(tl.int64)
    tl.store(out_ptr + place, total, mask=place < bins)


class ModelNew(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty((self.bins,), dtype=torch.int64, device=x.device)
        histogram[(triton.cdiv(self.bins, 8),)](x, out, x.numel(), self.bins, BLOCK_B=8, BLOCK_X=512)
        return out
