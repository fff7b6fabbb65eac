"""Leaves eps out; only small rows tell.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

PROGRAMS = 4


@triton.jit
def rms_norm(x_ptr, weight_ptr, y_ptr, rows, width, eps, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    inside = column < width
    weight = tl.load(weight_ptr + column, mask=inside, other=0.0).to(tl.float32)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * width + column, mask=inside, other=0.0).to(tl.float32)
        root = tl.sqrt(tl.sum(x * x, axis=0) / width)
        tl.store(y_ptr + row * width + column, (x / root * weight).to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def forward(self, x):
        x = x.contiguous()
        width = x.shape[-1]
        rows = x.numel() // width
        y = torch.empty_like(x)
        rms_norm[(PROGRAMS,)](x, self.weight, y, rows, width, 1e-5, BLOCK=triton.next_power_of_2(width))
        return y
