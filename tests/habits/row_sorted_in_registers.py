"""Rows are padded with infinity and sorted by tl.sort.

problem: row_sorted
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sort_kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr, DESCENDING: tl.constexpr = False):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=float("inf"))
    tl.store(y_ptr + row * N + c, tl.sort(x, descending=DESCENDING), mask=c < N)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        sort_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
