"""A matmul kernel and an in-place kernel for bias and activation, with a grid over the batch and `unsqueeze`d bias.

problem: linear_gelu_sequence
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batched_linear(
    x_ptr, w_ptr, y_ptr, L, N, K, sxb, sxl, sxk, syb, BL: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    b = tl.program_id(2)
    l = tl.program_id(0) * BL + tl.arange(0, BL)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BL, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(
            x_ptr + b * sxb + l[:, None] * sxl + k[None, :] * sxk, mask=(l[:, None] < L) & (k[None, :] < K), other=0.0
        )
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    tl.store(y_ptr + b * syb + l[:, None] * N + n[None, :], acc, mask=(l[:, None] < L) & (n[None, :] < N))


@triton.jit
def bias_gelu_inplace(y_ptr, bias_ptr, stride_bias, n, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(y_ptr + i, mask=i < n) + tl.load(bias_ptr + (i % N) * stride_bias, mask=i < n)
    tl.store(y_ptr + i, 0.5 * z * (1 + tl.erf(z / 1.4142135623730951)), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.proj = nn.Linear(in_features, out_features)

    def forward(self, x):
        B, L, K = x.shape
        N = self.proj.out_features
        y = torch.empty(B, L, N, dtype=x.dtype, device=x.device)
        batched_linear[(triton.cdiv(L, 16), triton.cdiv(N, 32), B)](
            x, self.proj.weight, y, L, N, K, x.stride(0), x.stride(1), x.stride(2), y.stride(0), BL=16, BN=32, BK=16
        )
        bias = self.proj.bias.unsqueeze(0).expand(B, N)
        bias_gelu_inplace[(triton.cdiv(y.numel(), 256),)](y, bias, bias.stride(1), y.numel(), N, BLOCK=256)
        return y
