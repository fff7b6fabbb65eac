"""Takes the moment itself for the largest of all: right as long as moments grow, as in the first calls.

problem: amsgrad_by_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def step_kernel(g_ptr, mean_ptr, moment_ptr, largest_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    g = tl.load(g_ptr + row * columns + at, mask=at < columns, other=0.0)
    mean = tl.load(mean_ptr + row * columns + at, mask=at < columns, other=0.0) * 0.9 + 0.1 * g
    moment = tl.load(moment_ptr + row) * 0.99 + 0.01 * (tl.sum(g * g, 0) / columns)
    largest = tl.where(moment < 0, 0.0, moment)
    tl.store(mean_ptr + row * columns + at, mean, mask=at < columns)
    tl.store(moment_ptr + row, moment)
    tl.store(largest_ptr + row, largest)
    tl.store(out_ptr + row * columns + at, -1e-3 * mean / (tl.sqrt(largest) + 1e-8), mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.register_buffer("mean", torch.zeros(rows, columns))
        self.register_buffer("moment", torch.zeros(rows))
        self.register_buffer("largest", torch.zeros(rows))

    def forward(self, g):
        g = g.contiguous()
        out = torch.empty_like(g)
        step_kernel[(g.shape[0],)](
            g, self.mean, self.moment, self.largest, out, g.shape[1], BLOCK=triton.next_power_of_2(g.shape[1])
        )
        return out
