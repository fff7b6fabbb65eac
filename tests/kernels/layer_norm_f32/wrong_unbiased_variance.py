"""Divides the squares by one less than the width.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, y_ptr, rows, width, eps, BLOCK_R: tl.constexpr, BLOCK_W: tl.constexpr):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    column = tl.arange(0, BLOCK_W)
    inside = (row[:, None] < rows) & (column[None, :] < width)
    offsets = row[:, None] * width + column[None, :]
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    mean = tl.sum(x, axis=1) / width
    centred = tl.where(inside, x - mean[:, None], 0.0)
    variance = tl.sum(centred * centred, axis=1) / (width - 1)
    scale = 1.0 / tl.sqrt(variance + eps)
    weight = tl.load(weight_ptr + column, mask=column < width, other=0.0)
    bias = tl.load(bias_ptr + column, mask=column < width, other=0.0)
    y = centred * scale[:, None] * weight[None, :] + bias[None, :]
    tl.store(y_ptr + offsets, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, x):
        x = x.contiguous()
        width = x.shape[-1]
        rows = x.numel() // width
        y = torch.empty_like(x)
        layer_norm[(triton.cdiv(rows, 4),)](
            x,
            self.norm.weight,
            self.norm.bias,
            y,
            rows,
            width,
            self.norm.eps,
            BLOCK_R=4,
            BLOCK_W=triton.next_power_of_2(width),
        )
        return y
