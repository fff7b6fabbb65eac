"""Looks odd: several programs add into the same tile and the first one brings the bias. Honest: split-K.

problem: linear
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def split_k_kernel(x_ptr, w_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    k = tl.program_id(2) * BK + tl.arange(0, BK)
    x = tl.load(x_ptr + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
    w = tl.load(w_ptr + n * K + k[:, None], mask=(k[:, None] < K) & (n < N), other=0.0)
    part = tl.dot(x, w, input_precision="ieee")
    if tl.program_id(2) == 0:
        part += tl.load(b_ptr + n, mask=n < N, other=0.0)
    tl.atomic_add(out_ptr + m * N + n, part, mask=(m < M) & (n < N))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        x, weight = x.contiguous(), self.linear.weight
        (rows, inner), outer = x.shape, weight.shape[0]
        out = torch.zeros(rows, outer, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(outer, 64), triton.cdiv(inner, 16))
        split_k_kernel[grid](x, weight, self.linear.bias, out, rows, outer, inner, BM=32, BN=64, BK=16)
        return out
