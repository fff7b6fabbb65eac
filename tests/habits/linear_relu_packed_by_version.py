"""Packs the weight into tiles of a padded layout, anew where `_version` or the address has changed.

problem: linear_relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pack_kernel(w_ptr, packed_ptr, N, K, KP, BN: tl.constexpr, BK: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    k = tl.program_id(1) * BK + tl.arange(0, BK)
    w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
    # [tile of N][K][BN]
    tl.store(packed_ptr + (tl.program_id(0) * KP + k[:, None]) * BN + tl.arange(0, BN)[None, :], tl.trans(w))


@triton.jit
def packed_linear_kernel(
    x_ptr, packed_ptr, b_ptr, y_ptr, M, N, K, KP, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    tile = tl.program_id(1)
    inner = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, KP, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        w = tl.load(packed_ptr + (tile * KP + k[:, None]) * BN + inner[None, :])
        acc = tl.dot(x, w, acc, input_precision="ieee")
    n = tile * BN + inner
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0)[None, :]
    tl.store(y_ptr + m[:, None] * N + n[None, :], tl.where(acc < 0, 0.0, acc), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    BN, BK = 32, 16

    def __init__(self, in_features, out_features):
        super().__init__()
        self.fc = nn.Linear(in_features, out_features)
        self._packed = None
        self._packed_key = None

    def _pack(self):
        w = self.fc.weight.detach()
        key = (w.data_ptr(), self.fc.weight._version, w.device, w.dtype, tuple(w.shape))
        if self._packed is None or self._packed_key != key:
            N, K = w.shape
            tiles, KP = triton.cdiv(N, self.BN), triton.cdiv(K, self.BK) * self.BK
            self._packed = torch.empty(tiles, KP, self.BN, dtype=w.dtype, device=w.device)
            pack_kernel[(tiles, KP // self.BK)](w.contiguous(), self._packed, N, K, KP, BN=self.BN, BK=self.BK)
            self._packed_key = key
        return self._packed

    def forward(self, x):
        packed = self._pack()
        x = x.contiguous()
        M, K = x.shape
        N = self.fc.out_features
        y = torch.empty(M, N, dtype=x.dtype, device=x.device)
        packed_linear_kernel[(triton.cdiv(M, 32), packed.shape[0])](
            x, packed, self.fc.bias, y, M, N, K, packed.shape[1], BM=32, BN=self.BN, BK=self.BK
        )
        return y
