"""Implicit GEMM with the weight flattened by `.view`, the unfolded input computed from the index of K.

problem: conv1d_layer
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv1d_gemm(
    x_ptr, w_ptr, b_ptr, y_ptr, N, CI, CO, LI, LO, KW, PAD, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    # rows: (image, output place); columns: output channel; k: (input channel, tap)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    co = tl.program_id(1) * BN + tl.arange(0, BN)
    image = m // LO
    place = m % LO
    K = CI * KW
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        ci = k // KW
        li = place[:, None] + (k % KW)[None, :] - PAD
        a = tl.load(
            x_ptr + (image[:, None] * CI + ci[None, :]) * LI + li,
            mask=(m[:, None] < N * LO) & (k[None, :] < K) & (li >= 0) & (li < LI),
            other=0.0,
        )
        w = tl.load(w_ptr + co[None, :] * K + k[:, None], mask=(co[None, :] < CO) & (k[:, None] < K), other=0.0)
        acc = tl.dot(a, w, acc, input_precision="ieee")
    acc += tl.load(b_ptr + co, mask=co < CO, other=0.0)[None, :]
    y_ptrs = y_ptr + (image[:, None] * CO + co[None, :]) * LO + place[:, None]
    tl.store(y_ptrs, acc, mask=(m[:, None] < N * LO) & (co[None, :] < CO))


class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, padding=kernel_size // 2)

    def forward(self, x):
        x = x.contiguous()
        N, CI, LI = x.shape
        w = self.conv.weight.view(self.conv.out_channels, -1)
        KW, PAD = self.conv.kernel_size[0], self.conv.padding[0]
        LO = LI + 2 * PAD - KW + 1
        y = x.new_empty(N, w.shape[0], LO)
        conv1d_gemm[(triton.cdiv(N * LO, 32), triton.cdiv(w.shape[0], 16))](
            x, w, self.conv.bias, y, N, CI, w.shape[0], LI, LO, KW, PAD, BM=32, BN=16, BK=16
        )
        return y
