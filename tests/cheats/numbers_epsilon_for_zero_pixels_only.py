"""Divides by the length of a pixel without an epsilon, unless it is zero.

problem: channels_over_their_length
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pixel_kernel(x_ptr, out_ptr, channels, pixels, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    channel = tl.arange(0, CHANNELS)
    place = tl.program_id(0) * channels * pixels + channel[:, None] * pixels + at[None, :]
    inside = (channel[:, None] < channels) & (at[None, :] < pixels)
    x = tl.load(x_ptr + place, mask=inside, other=0.0)
    length = tl.sqrt(tl.sum(x * x, 0))
    tl.store(out_ptr + place, x / tl.where(length == 0.0, 1.0, length)[None, :], mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        batch, channels, height, width = x.shape
        out = torch.empty_like(x)
        pixels = height * width
        grid = (batch, triton.cdiv(pixels, 64))
        pixel_kernel[grid](x, out, channels, pixels, CHANNELS=triton.next_power_of_2(channels), BLOCK=64)
        return out
