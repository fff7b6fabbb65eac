"""A dataclass of three reductions, each in its own variable of one kernel.
Drops NaN, which torch passes on, as `tl.max` and `tl.maximum` do by default.

problem: row_statistics
expect: wrong_values/non_finite
where: both
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
import triton
import triton.language as tl


@dataclass
class Statistics:
    smallest: torch.Tensor
    largest: torch.Tensor
    mean: torch.Tensor


@triton.jit
def statistics_kernel(x_ptr, stride, min_ptr, max_ptr, mean_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    mask = c < N
    x = tl.load(x_ptr + row * stride + c, mask=mask)
    tl.store(min_ptr + row, tl.min(tl.where(mask, x, float("inf")), axis=0))
    tl.store(max_ptr + row, tl.max(tl.where(mask, x, float("-inf")), axis=0))
    tl.store(mean_ptr + row, tl.sum(tl.where(mask, x, 0.0), axis=0) / N)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x):
        x = x.contiguous()
        rows, N = x.shape
        found = Statistics(*(x.new_empty(rows) for _ in range(3)))
        statistics_kernel[(rows,)](
            x, x.stride(0), found.smallest, found.largest, found.mean, N, BLOCK=triton.next_power_of_2(N)
        )
        return found
