"""The softmax runs over the last axis.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, classes, length, BLOCK_C: tl.constexpr, BLOCK_L: tl.constexpr):
    batch = tl.program_id(0)
    k = tl.arange(0, BLOCK_C)[:, None]
    position = (tl.program_id(1) * BLOCK_L + tl.arange(0, BLOCK_L))[None, :]
    inside = (k < classes) & (position < length)
    offsets = (batch * classes + k) * length + position
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    x = tl.where(position < length, x, -float("inf"))
    power = tl.exp(x - tl.max(x, axis=1)[:, None])
    y = power / tl.sum(power, axis=1)[:, None]
    tl.store(y_ptr + offsets, y.to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        batch, classes, length = x.shape
        y = torch.empty_like(x)
        block_l = triton.next_power_of_2(length)
        grid = (batch, 1)
        softmax[grid](x, y, classes, length, BLOCK_C=triton.next_power_of_2(classes), BLOCK_L=block_l)
        return y
