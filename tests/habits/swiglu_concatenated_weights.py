"""Concatenates w1 and w3 at each call for one product, then a gate kernel on strided halves, then the last product.

problem: swiglu_mlp
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def linear_nobias(x_ptr, w_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    n_tiles = tl.cdiv(N, BN)
    m = (pid // n_tiles) * BM + tl.arange(0, BM)
    n = (pid % n_tiles) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    k = tl.arange(0, BK)
    for _ in range(tl.cdiv(K, BK)):
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        acc = tl.dot(x, tl.trans(w), acc, input_precision="ieee")
        k += BK
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def silu_and_mul(gu_ptr, out_ptr, H, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, H, BLOCK):
        h = start + tl.arange(0, BLOCK)
        gate = tl.load(gu_ptr + row * 2 * H + h, mask=h < H, other=0.0)
        up = tl.load(gu_ptr + row * 2 * H + H + h, mask=h < H, other=0.0)
        tl.store(out_ptr + row * H + h, gate / (1.0 + tl.exp(-gate)) * up, mask=h < H)


def linear(x, weight):
    M, K = x.shape
    N = weight.size(0)
    y = x.new_empty((M, N))
    linear_nobias[(triton.cdiv(M, 16) * triton.cdiv(N, 32),)](x, weight, y, M, N, K, BM=16, BN=32, BK=16)
    return y


class ModelNew(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x):
        w13 = torch.cat([self.w1.weight, self.w3.weight], dim=0)
        gate_up = linear(x.contiguous(), w13)
        hidden = x.new_empty((x.shape[0], self.w1.out_features))
        silu_and_mul[(x.shape[0],)](gate_up, hidden, hidden.shape[1], BLOCK=32)
        return linear(hidden, self.w2.weight)
