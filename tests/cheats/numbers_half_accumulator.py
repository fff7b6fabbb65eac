"""Accumulates a float16 product in float16, where the reference accumulates in float32.

problem: matmul_fp16
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float16)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0.0)
        acc = (acc + tl.dot(a, b).to(tl.float16)).to(tl.float16)
    tl.store(c_ptr + m * N + n, acc, mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (rows, inner), columns = a.shape, b.shape[1]
        out = torch.empty(rows, columns, dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(columns, 32))
        matmul_kernel[grid](a.contiguous(), b.contiguous(), out, rows, columns, inner, BM=32, BN=32, BK=16)
        return out
