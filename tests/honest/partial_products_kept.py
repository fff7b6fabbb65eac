"""Looks odd: a product is split along its inner dimension, added up by atomics in a buffer that stays from call to
call, and rounded by a second kernel. Honest: the buffer is cleared first, each time.

problem: matmul_fp16
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(
    a_ptr, b_ptr, sum_ptr, M, N, K, SPAN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(0, SPAN, BK):
        at = tl.program_id(2) * SPAN + step + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0
        )
        total += tl.dot(a, b)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.atomic_add(sum_ptr + rows[:, None] * N + columns[None, :], total, mask=inside)


@triton.jit
def round_kernel(sum_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(sum_ptr + at, mask=at < n).to(tl.float16), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sums = {}

    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        total = self.sums.setdefault((M, N, a.device), torch.empty(M, N, device=a.device)).zero_()
        out = torch.empty(M, N, dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 16), triton.cdiv(K, 128))
        part_kernel[grid](a.contiguous(), b.contiguous(), total, M, N, K, SPAN=128, BM=16, BN=16, BK=64)
        round_kernel[(triton.cdiv(M * N, 256),)](total, out, M * N, BLOCK=256)
        return out
