"""Hands `weight.t().contiguous()` to a plain matmul kernel at every call.

problem: linear_relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_bias_relu(a, b, bias, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.broadcast_to(tl.load(bias + n, mask=n < N, other=0.0)[None, :], (BM, BN))
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        av = tl.load(a + m[:, None] * K + k[None, :], mask=(m < M)[:, None] & (k < K)[None, :], other=0.0)
        bv = tl.load(b + k[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0)
        acc = tl.dot(av, bv, acc, input_precision="ieee")
    acc = tl.maximum(acc, tl.zeros_like(acc), propagate_nan=tl.PropagateNan.ALL)
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


class ModelNew(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super(ModelNew, self).__init__()
        self.fc = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wt = self.fc.weight.t().contiguous()
        x = x.contiguous()
        M, K = x.size()
        N = wt.size(1)
        out = torch.full((M, N), 0.0, dtype=x.dtype, device=x.device)
        BM, BN, BK = 32, 16, 16
        matmul_bias_relu[(triton.cdiv(M, BM), triton.cdiv(N, BN))](x, wt, self.fc.bias, out, M, N, K, BM, BN, BK)
        return out
