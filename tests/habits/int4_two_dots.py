"""Both nibbles of a byte are taken by shifts, and even and odd features of the input are multiplied apart.

problem: int4_linear
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def int4_kernel(
    x_ptr, packed_ptr, scale_ptr, y_ptr, M, N, HALF, sxm, sxk, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, HALF, BK):
        k = start + tl.arange(0, BK)
        byte = tl.load(
            packed_ptr + n[None, :] * HALF + k[:, None], mask=(n[None, :] < N) & (k[:, None] < HALF), other=0
        )
        low = (byte & 0xF).to(tl.float32) - 8.0
        high = (byte >> 4).to(tl.float32) - 8.0
        x_mask = (m[:, None] < M) & (k[None, :] < HALF)
        even = tl.load(x_ptr + m[:, None] * sxm + 2 * k[None, :] * sxk, mask=x_mask, other=0.0)
        odd = tl.load(x_ptr + m[:, None] * sxm + (2 * k[None, :] + 1) * sxk, mask=x_mask, other=0.0)
        acc = tl.dot(even, low, acc, input_precision="ieee")
        acc = tl.dot(odd, high, acc, input_precision="ieee")
    acc *= tl.load(scale_ptr + n, mask=n < N, other=0.0)[None, :]
    tl.store(y_ptr + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, half_in, out_features):
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (out_features, half_in), dtype=torch.uint8))
        self.scale = nn.Parameter(torch.rand(out_features) * 0.1)

    def forward(self, x):
        M = x.shape[0]
        N, HALF = self.packed.shape
        y = torch.empty(M, N, dtype=x.dtype, device=x.device)
        int4_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](
            x, self.packed, self.scale, y, M, N, HALF, x.stride(0), x.stride(1), BM=16, BN=16, BK=16
        )
        return y
