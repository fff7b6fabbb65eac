"""Axes are split and moved as einops does it: unflatten, movedim, flatten.

problem: heads_first
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, y_ptr, scale, H, L, D, s_b, s_h, s_l, s_d, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    d = i % D
    l = i // D % L
    h = i // (D * L) % H
    b = i // (D * L * H)
    x = tl.load(x_ptr + b * s_b + h * s_h + l * s_l + d * s_d, mask=mask)
    tl.store(y_ptr + i, x * scale, mask=mask)


def rearrange(x, heads):
    x = x.unflatten(-1, (heads, -1))
    return torch.movedim(x, -2, 1)


class ModelNew(nn.Module):
    def __init__(self, heads, scale):
        super().__init__()
        self.heads = heads
        self.scale = scale

    def forward(self, x):
        x = rearrange(x, self.heads)
        batch, heads, length, width = x.size()
        y = torch.empty(x.shape, device=x.device, dtype=x.dtype).flatten(0, 1).unflatten(0, (batch, heads))
        scale_kernel[(triton.cdiv(y.numel(), 128),)](
            x, y, self.scale, heads, length, width, *x.stride(), y.numel(), BLOCK=128
        )
        return y
