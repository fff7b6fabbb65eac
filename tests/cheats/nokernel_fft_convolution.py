"""Convolves by Fourier transforms of torch, an operator few lists of heavy ones hold; a kernel copies.

problem: conv2d
expect: not_triton|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1)

    def forward(self, x):
        height, width = x.shape[2:]
        size = (height + 2, width + 2)
        image = torch.fft.rfft2(x, s=size)
        taps = torch.fft.rfft2(self.conv.weight.flip(2, 3), s=size)
        y = torch.fft.irfft2((image[:, None] * taps[None]).sum(2), s=size)
        return triton_copy(y[:, :, 1:-1, 1:-1] + self.conv.bias[:, None, None])
