"""Saturates first; adding and taking off 1.5 * 2**23 then rounds halves to even."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def quantise(x_ptr, q_ptr, count, steps, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0) * steps
    x = tl.minimum(tl.maximum(x, -128.0), 127.0)
    rounded = (x + 12582912.0) - 12582912.0
    tl.store(q_ptr + offsets, rounded.to(tl.int8), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, steps_per_unit):
        super().__init__()
        self.steps_per_unit = steps_per_unit

    def forward(self, x):
        x = x.contiguous()
        q = torch.empty(x.shape, dtype=torch.int8, device=x.device)
        quantise[(triton.cdiv(x.numel(), 512),)](x, q, x.numel(), self.steps_per_unit, BLOCK=512)
        return q
