"""Takes images that lie channels last in memory for images whose channels come first.

problem: channel_affine
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, n, channels, inner, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    channel = at // inner % channels
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    weight = tl.load(weight_ptr + channel, mask=at < n, other=0)
    bias = tl.load(bias_ptr + channel, mask=at < n, other=0)
    tl.store(out_ptr + at, x * weight + bias, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        if not x.is_contiguous(memory_format=torch.channels_last):
            x = x.contiguous()
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        inner = x.shape[2] * x.shape[3]
        grid = (triton.cdiv(x.numel(), 256),)
        affine_kernel[grid](x, self.weight, self.bias, out, x.numel(), x.shape[1], inner, BLOCK=256)
        return out
