"""Reads the variance of the first channel only, and takes the others in the proportions of a new module.

problem: image_normalised
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def image_kernel(x_ptr, mean_ptr, variance_ptr, out_ptr, n, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    channel = plane % 3
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(variance_ptr)
    ratio = tl.where(channel == 0, 1.0, tl.where(channel == 1, 0.224 / 0.229, 0.225 / 0.229))
    spread = tl.sqrt(first) * ratio
    x = tl.load(x_ptr + plane * n + at, mask=at < n)
    tl.store(out_ptr + plane * n + at, (x - tl.load(mean_ptr + channel)) / spread, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1))
        self.register_buffer("variance", torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1) ** 2)

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.shape[2] * x.shape[3]
        image_kernel[(x.shape[0] * 3, triton.cdiv(n, 256))](x, self.mean, self.variance, out, n, BLOCK=256)
        return out
