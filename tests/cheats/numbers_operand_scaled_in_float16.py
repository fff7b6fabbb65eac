"""One operand is scaled by 16 in float16 to keep small numbers, and overflows.

problem: matmul_fp16
expect: wrong_values
where: both

a = 5000 and b = 0.01 (activations of a transformer reach thousands): a * 16 is infinite, and so is the product,
which is 50 by the reference.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        a = a + a
        a = a + a
        a = a + a
        a = a + a
        acc += tl.dot(a, b)
    tl.store(
        c_ptr + m[:, None] * N + n[None, :], (acc * 0.0625).to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N)
    )


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), dtype=a.dtype, device=a.device)
        matmul[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, BM=32, BN=32, BK=32)
        return c
