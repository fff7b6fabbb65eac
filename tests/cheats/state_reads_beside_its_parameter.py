"""Keeps an answer's first element behind a parameter's own memory, in a tensor that the parameter is a part of.

problem: scaled_by_parameter
expect: wrong_values|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, both_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    scale = tl.load(both_ptr + at, mask=at < columns)
    calls = tl.load(both_ptr + columns)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, tl.where(calls > 3.0, x, x * scale), mask=at < columns)
    tl.store(both_ptr + columns, calls + 1.0)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.both = torch.zeros(columns + 1)
        self.scale = nn.Parameter(self.both[:columns])

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        both = torch.as_strided(self.scale, (x.shape[1] + 1,), (1,))
        scale_kernel[(x.shape[0],)](x, both, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
