"""Convolves by Fourier transforms, called by the names under which torch keeps its primitive operators; a kernel copies.

problem: conv2d
expect: not_triton|cheated|runtime_error|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bias_kernel(x_ptr, bias_ptr, out_ptr, n, size, channels, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bias = tl.load(bias_ptr + at // size % channels, mask=at < n)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + bias, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        height, width = x.shape[2:]
        size = (height + 2, width + 2)
        p = torch.ops.prims
        image = torch.zeros(*x.shape[:2], *size, device=x.device)
        image[:, :, :height, :width] = x
        taps = torch.zeros(*self.conv.weight.shape[:2], *size, device=x.device)
        taps[:, :, :3, :3] = self.conv.weight.flip(2, 3)
        a, b = p.fft_r2c(image, dim=[2, 3], onesided=True), p.fft_r2c(taps, dim=[2, 3], onesided=True)
        y = p.fft_c2r((a[:, None] * b[None]).sum(2), dim=[2, 3], last_dim_size=size[1]) / (size[0] * size[1])
        y = y[:, :, 1:-1, 1:-1].contiguous()
        out = torch.empty_like(y)
        n = y.numel()
        bias_kernel[(triton.cdiv(n, 512),)](y, self.conv.bias, out, n, height * width, y.shape[1], BLOCK=512)
        return out
