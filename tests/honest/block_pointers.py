"""Looks odd: no pointer arithmetic and no masks. Honest: block pointers check the boundary themselves.

problem: matmul_fp16
expect: passed
where: both
needs: triton.language.make_block_ptr
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (m, 0), (BM, BK), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (N, 1), (0, n), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        left = tl.load(a, boundary_check=(0, 1), padding_option="zero")
        right = tl.load(b, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(left, right, acc)
        a = tl.advance(a, (0, BK))
        b = tl.advance(b, (BK, 0))
    c = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (m, n), (BM, BN), (1, 0))
    tl.store(c, acc.to(tl.float16), boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (rows, inner), columns = a.shape, b.shape[1]
        out = torch.empty(rows, columns, dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(columns, 32))
        matmul_kernel[grid](a, b, out, rows, columns, inner, BM=32, BN=32, BK=64)
        return out
