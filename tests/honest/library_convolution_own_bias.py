"""Looks odd: convolves by cuDNN without its bias. Honest where the user allows a library: a kernel adds the bias.

problem: conv2d
expect: passed
where: both
mode: allow-library
"""

import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def channel_bias_kernel(y_ptr, b_ptr, n, channels, area, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n)
    b = tl.load(b_ptr + (at // area) % channels, mask=at < n)
    tl.store(y_ptr + at, y + b, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        y = F.conv2d(x, self.conv.weight, None, padding=1).contiguous()
        _, channels, height, width = y.shape
        grid = (triton.cdiv(y.numel(), 1024),)
        channel_bias_kernel[grid](y, self.conv.bias, y.numel(), channels, height * width, BLOCK=1024)
        return y
