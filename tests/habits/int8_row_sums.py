"""A GEMV-like kernel for few tokens: products and tl.sum in place of tl.dot, dequantised in the loop.

problem: int8_linear
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def dequantize(w, scale):
    return w.to(tl.float32) * scale


@triton.jit
def gemv_int8(x_ptr, w_ptr, s_ptr, y_ptr, N, K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    token = tl.program_id(1)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    scale = tl.load(s_ptr + n, mask=n < N, other=0.0)
    acc = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0)
        x = tl.load(x_ptr + token * K + k, mask=k < K, other=0.0)
        acc += dequantize(w, scale[:, None]) * x[None, :]
    tl.store(y_ptr + token * N + n, tl.sum(acc, axis=1), mask=n < N)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (out_features, in_features), dtype=torch.int8))
        self.register_buffer("scale", torch.rand(out_features) * 0.01 + 0.001)

    def forward(self, x):
        x = x.contiguous()
        tokens, K = x.shape
        N = self.scale.numel()
        y = torch.empty((tokens, N), dtype=x.dtype, device=x.device)
        gemv_int8[(triton.cdiv(N, 32), tokens)](x, self.weight, self.scale, y, N, K, BLOCK_N=32, BLOCK_K=16)
        return y
