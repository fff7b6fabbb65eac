"""The level falls as quickly as it rises.

problem: smoothed_spectrum
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def level_kernel(x_ptr, level_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * columns + column, mask=at < rows, other=0.0)
    now = tl.sum(x * x, 0) / rows
    level = tl.load(level_ptr + column)
    level += 0.5 * (now - level)
    tl.store(level_ptr + column, level)
    tl.store(out_ptr + at * columns + column, x / tl.sqrt(level + 1e-3), mask=at < rows)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("level", torch.zeros(columns))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        level_kernel[(x.shape[1],)](
            x, self.level, out, x.shape[0], x.shape[1], BLOCK=triton.next_power_of_2(x.shape[0])
        )
        return out
