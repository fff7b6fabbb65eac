"""Looks odd: seven divisions and remainders, no dot. Honest: a direct convolution that finds its own indices.

problem: conv2d
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv3x3_kernel(x_ptr, w_ptr, b_ptr, out_ptr, n, C, O, H, W, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    column, row = at % W, (at // W) % H
    channel, image = (at // (W * H)) % O, at // (W * H * O)
    acc = tl.load(b_ptr + channel, mask=inside, other=0.0)
    for c in range(0, C):
        for tap in tl.static_range(9):
            i, j = row + tap // 3 - 1, column + tap % 3 - 1
            valid = inside & (i >= 0) & (i < H) & (j >= 0) & (j < W)
            x = tl.load(x_ptr + ((image * C + c) * H + i) * W + j, mask=valid, other=0.0)
            w = tl.load(w_ptr + (channel * C + c) * 9 + tap, mask=inside, other=0.0)
            acc += x * w
    tl.store(out_ptr + at, acc, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        x, weight = x.contiguous(), self.conv.weight.contiguous()
        batch, channels, height, width = x.shape
        outer = weight.shape[0]
        out = torch.empty(batch, outer, height, width, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(out.numel(), 512),)
        conv3x3_kernel[grid](x, weight, self.conv.bias, out, out.numel(), channels, outer, height, width, BLOCK=512)
        return out
