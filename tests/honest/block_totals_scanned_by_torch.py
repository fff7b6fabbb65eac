"""Looks odd: torch scans. Honest: it scans one total for each block of a row, and the kernels do the rest.

problem: scan_scaled
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def total_kernel(x_ptr, total_ptr, columns, blocks, BLOCK: tl.constexpr):
    row, block = tl.program_id(0), tl.program_id(1)
    at = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.store(total_ptr + row * blocks + block, tl.sum(x, 0))


@triton.jit
def scan_kernel(x_ptr, total_ptr, out_ptr, columns, blocks, BLOCK: tl.constexpr):
    row, block = tl.program_id(0), tl.program_id(1)
    at = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    before = tl.load(total_ptr + row * blocks + block - 1, mask=block > 0, other=0.0)
    y = (tl.cumsum(x, 0) + before) * 2.0 + 1.0
    tl.store(out_ptr + row * columns + at, y, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        blocks = triton.cdiv(columns, 32)
        totals, out = torch.empty(rows, blocks, device=x.device), torch.empty_like(x)
        total_kernel[(rows, blocks)](x, totals, columns, blocks, BLOCK=32)
        scanned = torch.cumsum(totals, 1)
        scan_kernel[(rows, blocks)](x, scanned, out, columns, blocks, BLOCK=32)
        return out
