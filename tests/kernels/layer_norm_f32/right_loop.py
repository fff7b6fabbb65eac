"""Rows of any length in three passes: mean, variance about it, result."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, y_ptr, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * width
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row + column, mask=column < width, other=0.0)
    mean = tl.sum(total, axis=0) / width
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + column, mask=column < width, other=0.0)
        centred = tl.where(column < width, x - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=0) / width + eps)
    for start in range(0, width, BLOCK):
        column = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + column, mask=column < width, other=0.0)
        weight = tl.load(weight_ptr + column, mask=column < width, other=0.0)
        bias = tl.load(bias_ptr + column, mask=column < width, other=0.0)
        tl.store(y_ptr + row + column, (x - mean) * scale * weight + bias, mask=column < width)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-5)

    def forward(self, x):
        x = x.contiguous()
        width = x.shape[-1]
        y = torch.empty_like(x)
        layer_norm[(x.numel() // width,)](x, self.norm.weight, self.norm.bias, y, width, self.norm.eps, BLOCK=32)
        return y
