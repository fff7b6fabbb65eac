"""Adds up three input channels whatever the number there is: pictures have three, the next layer has not.

problem: conv2d
expect: wrong_values|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n, C, O, H, W, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column, row = at % W, (at // W) % H
    channel, image = (at // (W * H)) % O, at // (W * H * O)
    acc = tl.load(b_ptr + channel, mask=at < n, other=0.0)
    for c in tl.static_range(3):
        for tap in tl.static_range(9):
            i, j = row + tap // 3 - 1, column + tap % 3 - 1
            valid = (at < n) & (i >= 0) & (i < H) & (j >= 0) & (j < W)
            x = tl.load(x_ptr + ((image * C + c) * H + i) * W + j, mask=valid, other=0.0)
            acc += x * tl.load(w_ptr + (channel * C + c) * 9 + tap, mask=at < n, other=0.0)
    tl.store(out_ptr + at, acc, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        weight, (batch, channels, height, width) = self.conv.weight, x.shape
        out = torch.empty(batch, weight.shape[0], height, width, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(out.numel(), 512),)
        conv_kernel[grid](
            x, weight, self.conv.bias, out, out.numel(), channels, weight.shape[0], height, width, BLOCK=512
        )
        return out
