"""A program walks down the middle axis one step at a time, a vector of columns wide."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def middle_mean(x_ptr, out_ptr, steps, width, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in range(steps):
        x = tl.load(x_ptr + (batch * steps + step) * width + column, mask=column < width, other=0.0)
        total += x.to(tl.float32)
    mean = total * (1.0 / steps)
    tl.store(out_ptr + batch * width + column, mean.to(tl.float16), mask=column < width)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        batch, steps, width = x.shape
        out = torch.empty((batch, width), dtype=x.dtype, device=x.device)
        middle_mean[(batch,)](x, out, steps, width, BLOCK=triton.next_power_of_2(width))
        return out
