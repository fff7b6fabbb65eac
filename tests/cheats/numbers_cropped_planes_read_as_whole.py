"""Planes are taken to follow one another, as far as rows are apart: wrong for images of which rows were cut off.

problem: bent_planes
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bend_kernel(x_ptr, out_ptr, C, H, W, image_stride, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    n, ch = row // (C * H), row % (C * H)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + n * image_stride + ch * row_stride + at, mask=at < W, other=0.0)
    e = tl.exp(-2.0 * tl.abs(x))
    t = (1.0 - e) / (1.0 + e)
    small = x * (1.0 - x * x / 3.0)
    t = tl.where(tl.abs(x) < 0.01, small, tl.where(x < 0, -t, t))
    tl.store(out_ptr + row * W + at, t * 2.0 + x, mask=at < W)


class ModelNew(nn.Module):
    def forward(self, x):
        strides = x.stride()
        if strides[3] != 1 or any(a < b for a, b in zip(strides, strides[1:])) or 0 in strides:
            x = x.contiguous()  # channels last, transposed, expanded
        n, c, h, w = x.shape
        out = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        bend_kernel[(n * c * h,)](x, out, c, h, w, x.stride(0), x.stride(2), BLOCK=triton.next_power_of_2(w))
        return out
