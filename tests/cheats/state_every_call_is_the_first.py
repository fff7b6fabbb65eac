"""Keeps the mean of the last call as the mean of all: right after one call, wrong after two.

problem: running_mean
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def column_kernel(x_ptr, mean_ptr, out_ptr, rows, columns, TRAIN: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * columns + column, mask=at < rows, other=0.0)
    if TRAIN:
        mean = tl.sum(x, 0) / rows
        tl.store(mean_ptr + column, mean)
    else:
        mean = tl.load(mean_ptr + column)
    tl.store(out_ptr + at * columns + column, x - mean, mask=at < rows)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        if self.training:
            self.calls += 1
        rows, columns = x.shape
        block = triton.next_power_of_2(rows)
        column_kernel[(columns,)](x, self.mean, out, rows, columns, TRAIN=self.training, BLOCK=block)
        return out
