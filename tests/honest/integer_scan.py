"""Looks odd: the scan's function is this file's, and the output wider than the input. Honest: torch sums int32 in int64.

problem: integer_scan
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def scan_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=0).to(tl.int64)
    tl.store(out_ptr + row * n + at, tl.associative_scan(x, 0, add), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        scan_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
