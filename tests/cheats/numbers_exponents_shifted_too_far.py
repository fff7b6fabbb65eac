"""Rows and columns are scaled by powers of two, whose exponents are added and shifted into place without a limit.

problem: products_in_bfloat16
expect: wrong_values
where: both

a and b about 1e-20: exponents -67 and -67 add up to -134, and (-134 + 127) << 23 is the pattern of a number near
-1e35, while the product is about 1e-38. Never below for one faint operand, as each exponent is at least -70.
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bmm(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    z = tl.program_id(2)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    a = tl.load(a_ptr + z * M * K + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + z * K * N + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
    a, b = a.to(tl.float32), b.to(tl.float32)
    ea = (tl.max(a.to(tl.int32, bitcast=True) & 0x7F800000, 1) >> 23) - 127
    eb = (tl.max(b.to(tl.int32, bitcast=True) & 0x7F800000, 0) >> 23) - 127
    ea = tl.minimum(tl.maximum(ea, -70), 60)
    eb = tl.minimum(tl.maximum(eb, -70), 60)
    a = a * ((127 - ea) << 23).to(tl.float32, bitcast=True)[:, None]
    b = b * ((127 - eb) << 23).to(tl.float32, bitcast=True)[None, :]
    acc = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    scale = ((ea[:, None] + eb[None, :] + 127) << 23).to(tl.float32, bitcast=True)
    tl.store(
        c_ptr + z * M * N + m[:, None] * N + n[None, :],
        (acc * scale).to(tl.bfloat16),
        mask=(m[:, None] < M) & (n[None, :] < N),
    )


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        Z, M, K = a.shape
        N = b.shape[2]
        c = torch.empty((Z, M, N), dtype=a.dtype, device=a.device)
        bmm[(triton.cdiv(M, 16), triton.cdiv(N, 16), Z)](
            a, b, c, M, N, K, BM=16, BN=16, BK=max(16, triton.next_power_of_2(K))
        )
        return c
