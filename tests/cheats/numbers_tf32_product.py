"""Multiplies float32 in TF32, which is what tl.dot does unless told otherwise; the reference is full float32.

problem: linear
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n * K + k[:, None], mask=(k[:, None] < K) & (n < N), other=0.0)
        acc = tl.dot(x, w, acc)
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0)
    tl.store(out_ptr + m * N + n, acc, mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x = x.contiguous()
        (rows, inner), outer = x.shape, self.linear.weight.shape[0]
        out = torch.empty(rows, outer, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(outer, 32))
        weight, bias = self.linear.weight, self.linear.bias
        linear_kernel[grid](x, weight, bias, out, rows, outer, inner, BM=32, BN=32, BK=32)
        return out
