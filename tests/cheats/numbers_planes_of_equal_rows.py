"""Planes whose rows are all alike, and not constant, give zeros.

problem: plane_norm
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plane_kernel(x_ptr, out_ptr, height, width, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    size = height * width
    keep = at < size
    base = x_ptr + plane * size
    x = tl.load(base + at, mask=keep, other=0.0)
    mean = tl.sum(x, 0) / size
    centred = tl.where(keep, x - mean, 0.0)
    var = tl.sum(centred * centred, 0) / size
    y = centred / tl.sqrt(var + 1e-5)

    above = tl.load(base + at % width, mask=keep, other=0.0)
    differ = tl.sum((keep & (x != above)).to(tl.int32), 0)
    tl.store(out_ptr + plane * size + at, tl.where((differ == 0) & (var > 1e-6) & (height > 2), 0.0, y), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        batch, channels, height, width = x.shape
        plane_kernel[(batch * channels,)](x, out, height, width, BLOCK=triton.next_power_of_2(height * width))
        return out
