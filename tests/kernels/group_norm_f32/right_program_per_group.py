"""A program per group of an image: mean, variance about it, result."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_norm(x_ptr, weight_ptr, bias_ptr, y_ptr, groups, group_size, pixels, eps, BLOCK: tl.constexpr):
    start = tl.program_id(0) * group_size
    first_channel = (tl.program_id(0) % groups) * (group_size // pixels)
    total = tl.zeros((BLOCK,), tl.float32)
    for piece in range(0, group_size, BLOCK):
        offsets = piece + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + start + offsets, mask=offsets < group_size, other=0.0)
    mean = tl.sum(total, axis=0) / group_size
    squares = tl.zeros((BLOCK,), tl.float32)
    for piece in range(0, group_size, BLOCK):
        offsets = piece + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + start + offsets, mask=offsets < group_size, other=0.0)
        centred = tl.where(offsets < group_size, x - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=0) / group_size + eps)
    for piece in range(0, group_size, BLOCK):
        offsets = piece + tl.arange(0, BLOCK)
        inside = offsets < group_size
        channel = first_channel + offsets // pixels
        x = tl.load(x_ptr + start + offsets, mask=inside, other=0.0)
        weight = tl.load(weight_ptr + channel, mask=inside, other=0.0)
        bias = tl.load(bias_ptr + channel, mask=inside, other=0.0)
        tl.store(y_ptr + start + offsets, (x - mean) * scale * weight + bias, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        x = x.contiguous()
        batch, channels = x.shape[:2]
        groups = self.norm.num_groups
        group_size = x[0].numel() // groups
        y = torch.empty_like(x)
        group_norm[(batch * groups,)](
            x, self.norm.weight, self.norm.bias, y, groups, group_size, x[0, 0].numel(), self.norm.eps, BLOCK=128
        )
        return y
