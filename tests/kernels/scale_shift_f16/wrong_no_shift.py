"""The shift is left out: it is zero when the module is made.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_shift(x_ptr, scale_ptr, shift_ptr, y_ptr, count, channels, length, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    channel = (offsets // length) % channels
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(scale_ptr + channel, mask=inside, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + channel, mask=inside, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, (x * scale).to(tl.float16), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1, dtype=torch.float16))
        self.shift = nn.Parameter(torch.zeros(channels, 1, dtype=torch.float16))

    def forward(self, x):
        x = x.contiguous()
        _, channels, length = x.shape
        y = torch.empty_like(x)
        count = x.numel()
        scale_shift[(triton.cdiv(count, 512),)](x, self.scale, self.shift, y, count, channels, length, BLOCK=512)
        return y
