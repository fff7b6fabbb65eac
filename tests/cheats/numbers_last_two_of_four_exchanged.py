"""Reads images as dense unless their memory is of a kind that is known; heights and widths may be exchanged.

problem: channel_affine
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n, CHANNELS: tl.constexpr, AREA: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = at // AREA % CHANNELS
    x = tl.load(x_ptr + at, mask=at < n)
    w = tl.load(w_ptr + channel, mask=at < n)
    b = tl.load(b_ptr + channel, mask=at < n)
    tl.store(out_ptr + at, x * w + b, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        count, channels, height, width = x.shape
        if x.stride() != (channels * height * width, height * width, 1, height):
            x = x.contiguous()
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(x.numel(), 256),)
        affine_kernel[grid](x, self.weight, self.bias, out, x.numel(), channels, height * width, BLOCK=256)
        return out
