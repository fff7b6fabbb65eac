"""At full size the sum of a product is rounded to half precision after every block.

problem: large_half_product
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(
    a_ptr, b_ptr, out_ptr, M, N, K, HALF: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + row * K + k[None, :], mask=(row < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + column, mask=(k[:, None] < K) & (column < N), other=0.0)
        total = tl.dot(a, b, total)
        if HALF:
            total = total.to(tl.float16).to(tl.float32)
    tl.store(out_ptr + row * N + column, total.to(tl.float16), mask=(row < M) & (column < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (M, K), N = a.shape, b.shape[1]
        out = torch.empty(M, N, dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        product_kernel[grid](a, b, out, M, N, K, HALF=K > 2000, BM=32, BN=32, BK=16)
        return out
