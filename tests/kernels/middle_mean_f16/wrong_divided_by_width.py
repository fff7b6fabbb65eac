"""Divides by the size of the last axis instead of the middle one.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def middle_mean(x_ptr, out_ptr, steps, width, BLOCK_S: tl.constexpr, BLOCK_W: tl.constexpr):
    batch = tl.program_id(0)
    column = tl.program_id(1) * BLOCK_W + tl.arange(0, BLOCK_W)
    total = tl.zeros((BLOCK_W,), dtype=tl.float32)
    for start in range(0, steps, BLOCK_S):
        step = start + tl.arange(0, BLOCK_S)
        inside = (step[:, None] < steps) & (column[None, :] < width)
        x = tl.load(x_ptr + (batch * steps + step[:, None]) * width + column[None, :], mask=inside, other=0.0)
        total += tl.sum(x.to(tl.float32), axis=0)
    tl.store(out_ptr + batch * width + column, (total / width).to(tl.float16), mask=column < width)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        batch, steps, width = x.shape
        out = torch.empty((batch, width), dtype=x.dtype, device=x.device)
        middle_mean[(batch, triton.cdiv(width, 64))](x, out, steps, width, BLOCK_S=32, BLOCK_W=64)
        return out
