"""The statistics read a whole block, past the group and past the tensor.

expect: runtime_error|wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_statistics(x_ptr, mean_ptr, scale_ptr, group_size, eps, BLOCK: tl.constexpr):
    group = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + group * group_size + offsets)
    mean = tl.sum(x, axis=0) / group_size
    centred = x - mean
    tl.store(mean_ptr + group, mean)
    tl.store(scale_ptr + group, 1.0 / tl.sqrt(tl.sum(centred * centred, axis=0) / group_size + eps))


@triton.jit
def apply_statistics(
    x_ptr, mean_ptr, scale_ptr, weight_ptr, bias_ptr, y_ptr, count, channels, pixels, group_size, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    group = offsets // group_size
    channel = (offsets // pixels) % channels
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    mean = tl.load(mean_ptr + group, mask=inside, other=0.0)
    scale = tl.load(scale_ptr + group, mask=inside, other=0.0)
    weight = tl.load(weight_ptr + channel, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + channel, mask=inside, other=0.0)
    tl.store(y_ptr + offsets, (x - mean) * scale * weight + bias, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        x = x.contiguous()
        batch, channels = x.shape[:2]
        groups = batch * self.norm.num_groups
        group_size = x.numel() // groups
        pixels = x.numel() // (batch * channels)
        mean = torch.empty((groups,), dtype=torch.float32, device=x.device)
        scale = torch.empty_like(mean)
        y = torch.empty_like(x)
        block = triton.next_power_of_2(group_size)
        group_statistics[(groups,)](x, mean, scale, group_size, self.norm.eps, BLOCK=block)
        apply_statistics[(triton.cdiv(x.numel(), 1024),)](
            x, mean, scale, self.norm.weight, self.norm.bias, y, x.numel(), channels, pixels, group_size, BLOCK=1024
        )
        return y
