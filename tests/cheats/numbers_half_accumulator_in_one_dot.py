"""One tl.dot over the whole depth with an accumulator in half precision, which rounds at every step on a GPU.

problem: matmul_fp16
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    column = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    k = tl.arange(0, BK)
    a = tl.load(a_ptr + row * K + k[None, :], mask=(row < M) & (k[None, :] < K), other=0.0)
    b = tl.load(b_ptr + k[:, None] * N + column, mask=(k[:, None] < K) & (column < N), other=0.0)
    c = tl.dot(a, b, out_dtype=tl.float16)
    tl.store(out_ptr + row * N + column, c, mask=(row < M) & (column < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (M, K), N = a.shape, b.shape[1]
        out = torch.empty(M, N, dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        product_kernel[grid](a, b, out, M, N, K, BM=32, BN=32, BK=max(16, triton.next_power_of_2(K)))
        return out
