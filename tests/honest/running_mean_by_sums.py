"""Looks odd: an infinity stays one in the running mean, where the reference has NaN. Honest: both are sums of it.

problem: running_centre
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def running_mean_kernel(x_ptr, mean_ptr, out_ptr, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    r = tl.arange(0, BR)[:, None]
    inside = (r < rows) & (c[None, :] < columns)
    x = tl.load(x_ptr + r * columns + c[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + r * columns + c[None, :], x * 2, mask=inside)
    old = tl.load(mean_ptr + c, mask=c < columns)
    tl.store(mean_ptr + c, old + 0.1 * (tl.sum(x, 0) / rows - old), mask=c < columns)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("mean", torch.zeros(columns))

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        running_mean_kernel[(triton.cdiv(columns, 32),)](
            x, self.mean, out, rows, columns, BR=triton.next_power_of_2(rows), BC=32
        )  # fmt: skip
        return out
