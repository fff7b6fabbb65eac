"""Nibbles are joined into whole rows by tl.interleave before one product, weights unpacked in the kernel.

problem: int4_linear
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def unpack(byte):
    return tl.interleave((byte & 15).to(tl.float32), ((byte >> 4) & 15).to(tl.float32)) - 8.0


@triton.jit
def int4_interleaved_kernel(x_ptr, q_ptr, s_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    half: tl.constexpr = BK // 2
    for k0 in range(0, K, BK):
        kb = k0 // 2 + tl.arange(0, half)
        byte = tl.load(
            q_ptr + n[:, None] * (K // 2) + kb[None, :], mask=(n[:, None] < N) & (kb[None, :] < K // 2), other=0x88
        )
        w = unpack(byte) * tl.load(s_ptr + n, mask=n < N, other=0.0)[:, None]
        k = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        acc += tl.dot(x, tl.trans(w), input_precision="ieee")
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, half_in, out_features):
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (out_features, half_in), dtype=torch.uint8))
        self.scale = nn.Parameter(torch.rand(out_features) * 0.1)

    def forward(self, x):
        x = x.contiguous()
        M, K = x.shape
        N = self.packed.size(0)
        y = x.new_zeros((M, N))
        int4_interleaved_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 32))](
            x, self.packed, self.scale, y, M, N, K, BM=16, BN=32, BK=32
        )
        return y
