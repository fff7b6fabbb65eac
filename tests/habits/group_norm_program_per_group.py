"""A program per image and group that walks over the group twice; sizes are read from the module.

problem: group_normed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(x_ptr, y_ptr, w_ptr, b_ptr, C, HW, G, eps, BLOCK: tl.constexpr):
    n = tl.program_id(0)
    g = tl.program_id(1)
    channels = C // G
    size = channels * HW
    base = (n * C + g * channels) * HW
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + base + i, mask=i < size, other=0.0)
    mean = tl.sum(total, 0) / size
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        d = tl.where(i < size, tl.load(x_ptr + base + i, mask=i < size, other=0.0) - mean, 0.0)
        square += d * d
    rstd = 1.0 / tl.sqrt(tl.sum(square, 0) / size + eps)
    for start in range(0, size, BLOCK):
        i = start + tl.arange(0, BLOCK)
        c = g * channels + i // HW
        w = tl.load(w_ptr + c, mask=i < size, other=0.0)
        b = tl.load(b_ptr + c, mask=i < size, other=0.0)
        x = tl.load(x_ptr + base + i, mask=i < size, other=0.0)
        tl.store(y_ptr + base + i, (x - mean) * rstd * w + b, mask=i < size)


class ModelNew(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        x = x.contiguous()
        N, C, H, W = x.shape
        G = self.norm.num_groups
        y = torch.empty_like(x)
        group_norm_kernel[(N, G)](x, y, self.norm.weight, self.norm.bias, C, H * W, G, self.norm.eps, BLOCK=64)
        return y
