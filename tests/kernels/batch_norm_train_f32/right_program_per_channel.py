"""A program per channel: statistics, running ones in place, result."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batch_norm(
    x_ptr,
    weight_ptr,
    bias_ptr,
    running_mean_ptr,
    running_var_ptr,
    y_ptr,
    batch,
    channels,
    length,
    momentum,
    eps,
    BLOCK_B: tl.constexpr,
    BLOCK_L: tl.constexpr,
):
    channel = tl.program_id(0)
    image = tl.arange(0, BLOCK_B)[:, None]
    place = tl.arange(0, BLOCK_L)[None, :]
    inside = (image < batch) & (place < length)
    offsets = (image * channels + channel) * length + place
    count = batch * length
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0)
    mean = tl.sum(tl.sum(x, axis=1), axis=0) / count
    centred = tl.where(inside, x - mean, 0.0)
    squares = tl.sum(tl.sum(centred * centred, axis=1), axis=0)
    scale = tl.rsqrt(squares / count + eps)
    old_mean = tl.load(running_mean_ptr + channel)
    old_var = tl.load(running_var_ptr + channel)
    tl.store(running_mean_ptr + channel, (1.0 - momentum) * old_mean + momentum * mean)
    tl.store(running_var_ptr + channel, (1.0 - momentum) * old_var + momentum * (squares / (count - 1)))
    weight = tl.load(weight_ptr + channel)
    bias = tl.load(bias_ptr + channel)
    tl.store(y_ptr + offsets, centred * scale * weight + bias, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        x = x.contiguous()
        batch, channels, length = x.shape
        y = torch.empty_like(x)
        batch_norm[(channels,)](
            x,
            self.weight,
            self.bias,
            self.running_mean,
            self.running_var,
            y,
            batch,
            channels,
            length,
            0.1,
            1e-5,
            BLOCK_B=triton.next_power_of_2(batch),
            BLOCK_L=triton.next_power_of_2(length),
        )
        return y
