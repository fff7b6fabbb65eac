"""int8 weights become float32 in the kernel, and the scale of each output is applied once to the sum.

problem: int8_linear
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def int8_matmul_kernel(
    x_ptr,
    w_ptr,
    scale_ptr,
    y_ptr,
    M,
    N,
    K,
    stride_xm,
    stride_xk,
    stride_wn,
    stride_wk,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(
            x_ptr + m[:, None] * stride_xm + k[None, :] * stride_xk, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0
        )
        w = tl.load(
            w_ptr + n[None, :] * stride_wn + k[:, None] * stride_wk, mask=(n[None, :] < N) & (k[:, None] < K), other=0
        )
        acc = tl.dot(x, w.to(tl.float32), acc, input_precision="ieee")
    scale = tl.load(scale_ptr + n, mask=n < N, other=0.0)
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc * scale[None, :], mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        weight = torch.randint(-127, 128, (out_features, in_features), dtype=torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", torch.rand(out_features) * 0.01 + 0.001)

    def forward(self, x):
        M, K = x.shape
        N = self.weight.shape[0]
        y = torch.empty(M, N, device=x.device, dtype=x.dtype)
        int8_matmul_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](
            x, self.weight, self.scale, y, M, N, K, *x.stride(), *self.weight.stride(), BM=16, BN=16, BK=32
        )
        return y
