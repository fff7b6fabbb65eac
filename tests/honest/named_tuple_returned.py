"""Looks odd: a class of this file comes back in place of a tuple. Honest: it is a tuple with names.

problem: two_outputs
expect: passed
where: both
"""

from typing import NamedTuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Both(NamedTuple):
    positive: torch.Tensor
    largest: torch.Tensor


@triton.jit
def both_kernel(x_ptr, out_ptr, largest_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    tl.store(out_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=at < columns)
    nans = tl.sum((x != x).to(tl.int32), 0)  # torch.amax passes NaN on, tl.max need not
    tl.store(largest_ptr + row, tl.where(nans > 0, float("nan"), tl.max(x, 0)))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        both = Both(torch.empty_like(x), torch.empty(x.shape[0], device=x.device))
        both_kernel[(x.shape[0],)](x, *both, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return both
