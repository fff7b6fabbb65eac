"""Dense frames are taken to lie channel by channel; they lie step by step in what a transposed (B, T, C, H, W) is.

problem: bent_frames
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bend_kernel(x_ptr, out_ptr, frames, HW, sample_stride, BLOCK: tl.constexpr):
    frame = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + frame // frames * sample_stride + frame % frames * HW + at, mask=at < HW, other=0.0)
    tl.store(out_ptr + frame * HW + at, tl.where(x > 0, x * 3.0, x), mask=at < HW)


class ModelNew(nn.Module):
    def forward(self, x):
        b, c, t, h, w = x.shape
        if x.stride(4) != 1 or x.stride(3) != w or min(x.stride(1), x.stride(2)) != h * w:
            x = x.contiguous()  # frames have gaps, or are no frames
        out = torch.empty(x.shape, device=x.device, dtype=x.dtype)
        bend_kernel[(b * c * t,)](x, out, c * t, h * w, x.stride(0), BLOCK=triton.next_power_of_2(h * w))
        return out
