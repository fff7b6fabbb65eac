"""Scans of chunks, a scan of the chunks' sums, and a kernel that adds the offsets: three launches with a scratch
tensor.
Carries NaN and infinities into places that torch leaves finite, by sums of masked blocks.

problem: row_cumsum
expect: wrong_values/non_finite
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def chunk_scan(x_ptr, y_ptr, sums_ptr, N, chunks, BLOCK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    i = chunk * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=0.0)
    tl.store(y_ptr + row * N + i, tl.cumsum(x, 0), mask=i < N)
    tl.store(sums_ptr + row * chunks + chunk, tl.sum(x, 0))


@triton.jit
def sums_scan(sums_ptr, chunks, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    s = tl.load(sums_ptr + row * chunks + i, mask=i < chunks, other=0.0)
    tl.store(sums_ptr + row * chunks + i, tl.cumsum(s, 0) - s, mask=i < chunks)


@triton.jit
def add_offsets(y_ptr, sums_ptr, N, chunks, BLOCK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    i = chunk * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + row * N + i, mask=i < N)
    tl.store(y_ptr + row * N + i, y + tl.load(sums_ptr + row * chunks + chunk), mask=i < N)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, N = x.shape
        BLOCK = 64
        chunks = triton.cdiv(N, BLOCK)
        y = torch.empty_like(x)
        sums = torch.empty((rows, chunks), dtype=x.dtype, device=x.device)
        chunk_scan[rows, chunks](x, y, sums, N, chunks, BLOCK=BLOCK)
        sums_scan[rows,](sums, chunks, BLOCK=triton.next_power_of_2(chunks))
        if chunks > 1:
            add_offsets[rows, chunks](y, sums, N, chunks, BLOCK=BLOCK)
        return y
