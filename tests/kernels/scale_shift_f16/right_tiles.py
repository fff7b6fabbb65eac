"""Tiles of whole (batch, channel) rows; each row loads its scale and shift once."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_shift(
    x_ptr, scale_ptr, shift_ptr, y_ptr, rows, channels, length, BLOCK_R: tl.constexpr, BLOCK_L: tl.constexpr
):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    scale = tl.load(scale_ptr + row % channels, mask=row < rows, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + row % channels, mask=row < rows, other=0.0).to(tl.float32)
    for start in range(0, length, BLOCK_L):
        column = start + tl.arange(0, BLOCK_L)
        inside = (row[:, None] < rows) & (column[None, :] < length)
        offsets = row[:, None] * length + column[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        y = x * scale[:, None] + shift[:, None]
        tl.store(y_ptr + offsets, y.to(tl.float16), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1, dtype=torch.float16))
        self.shift = nn.Parameter(torch.zeros(channels, 1, dtype=torch.float16))

    def forward(self, x):
        x = x.contiguous()
        batch, channels, length = x.shape
        y = torch.empty_like(x)
        rows = batch * channels
        scale_shift[(triton.cdiv(rows, 16),)](
            x, self.scale, self.shift, y, rows, channels, length, BLOCK_R=16, BLOCK_L=64
        )
        return y
