"""Divides by the variance instead of its square root.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batch_norm_relu(
    x_ptr, mean_ptr, var_ptr, weight_ptr, bias_ptr, y_ptr, count, channels, pixels, eps, BLOCK: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    channel = (offsets // pixels) % channels
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    mean = tl.load(mean_ptr + channel, mask=inside, other=0.0)
    var = tl.load(var_ptr + channel, mask=inside, other=1.0)
    weight = tl.load(weight_ptr + channel, mask=inside, other=0.0)
    bias = tl.load(bias_ptr + channel, mask=inside, other=0.0)
    y = (x - mean) * (1.0 / (var + eps)) * weight + bias
    tl.store(y_ptr + offsets, tl.where(y < 0, 0.0, y), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        x = x.contiguous()
        batch, channels = x.shape[:2]
        count = x.numel()
        y = torch.empty_like(x)
        batch_norm_relu[(triton.cdiv(count, 512),)](
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            y,
            count,
            channels,
            count // (batch * channels),
            1e-3,
            BLOCK=512,
        )
        return y
