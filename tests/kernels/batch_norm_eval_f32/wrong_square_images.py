"""Takes images to be square, with the height for both sides.

expect: wrong_values|runtime_error
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batch_norm_relu(
    x_ptr,
    mean_ptr,
    var_ptr,
    weight_ptr,
    bias_ptr,
    y_ptr,
    channels,
    pixels,
    eps,
    BLOCK_C: tl.constexpr,
    BLOCK_P: tl.constexpr,
):
    channel = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    known = channel < channels
    scale = tl.load(weight_ptr + channel, mask=known, other=0.0)
    scale *= tl.rsqrt(tl.load(var_ptr + channel, mask=known, other=1.0) + eps)
    mean = tl.load(mean_ptr + channel, mask=known, other=0.0)
    bias = tl.load(bias_ptr + channel, mask=known, other=0.0)
    row = (tl.program_id(0) * channels + channel) * pixels
    for start in range(0, pixels, BLOCK_P):
        pixel = start + tl.arange(0, BLOCK_P)
        inside = known[:, None] & (pixel[None, :] < pixels)
        x = tl.load(x_ptr + row[:, None] + pixel[None, :], mask=inside, other=0.0)
        y = (x - mean[:, None]) * scale[:, None] + bias[:, None]
        tl.store(y_ptr + row[:, None] + pixel[None, :], tl.where(y < 0, 0.0, y), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        x = x.contiguous()
        batch, channels, height, width = x.shape
        y = torch.empty_like(x)
        batch_norm_relu[(batch, triton.cdiv(channels, 8))](
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            y,
            channels,
            height * height,
            1e-3,
            BLOCK_C=8,
            BLOCK_P=64,
        )
        return y
