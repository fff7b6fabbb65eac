"""The products are summed in float16.

expect: wrong_values/precision
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

PROGRAMS = 3


@triton.jit
def matmul(
    a_ptr,
    b_ptr,
    c_ptr,
    m,
    n,
    k,
    a_row,
    a_column,
    b_row,
    b_column,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    tiles_n = tl.cdiv(n, BLOCK_N)
    tiles = tl.cdiv(m, BLOCK_M) * tiles_n
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        row = (tile // tiles_n) * BLOCK_M + tl.arange(0, BLOCK_M)
        column = (tile % tiles_n) * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float16)
        for start in range(0, k, BLOCK_K):
            inner = start + tl.arange(0, BLOCK_K)
            a_inside = (row[:, None] < m) & (inner[None, :] < k)
            b_inside = (inner[:, None] < k) & (column[None, :] < n)
            a = tl.load(a_ptr + row[:, None] * a_row + inner[None, :] * a_column, mask=a_inside, other=0.0)
            b = tl.load(b_ptr + inner[:, None] * b_row + column[None, :] * b_column, mask=b_inside, other=0.0)
            total += tl.dot(a, b, out_dtype=tl.float16)
        inside = (row[:, None] < m) & (column[None, :] < n)
        tl.store(c_ptr + row[:, None] * n + column[None, :], total.to(tl.float16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty((m, n), dtype=a.dtype, device=a.device)
        matmul[(PROGRAMS,)](a, b, c, m, n, k, *a.stride(), *b.stride(), BLOCK_M=16, BLOCK_N=32, BLOCK_K=16)
        return c
