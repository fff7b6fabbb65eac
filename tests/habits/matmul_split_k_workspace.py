"""Split-K into a float32 workspace that is kept in self by its shape, and a second kernel that adds the parts.

problem: square_matmul
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_kernel(
    a_ptr,
    b_ptr,
    ws_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    k_per_split,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    split = tl.program_id(2)
    lo = split * k_per_split
    hi = tl.minimum(lo + k_per_split, K)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(lo, hi, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(
            a_ptr + rm[:, None] * stride_am + rk[None, :] * stride_ak,
            mask=(rm < M)[:, None] & (rk < hi)[None, :],
            other=0.0,
        )
        b = tl.load(
            b_ptr + rk[:, None] * stride_bk + rn[None, :] * stride_bn,
            mask=(rk < hi)[:, None] & (rn < N)[None, :],
            other=0.0,
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(ws_ptr + (split * M + rm[:, None]) * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def reduce_kernel(ws_ptr, c_ptr, n, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for s in tl.static_range(SPLITS):
        acc += tl.load(ws_ptr + s * n + i, mask=i < n, other=0.0)
    tl.store(c_ptr + i, acc.to(c_ptr.type.element_ty), mask=i < n)


class ModelNew(nn.Module):
    SPLITS = 3

    def __init__(self):
        super().__init__()
        self._workspaces = {}

    def _workspace(self, shape, device):
        key = (shape, device)
        if key not in self._workspaces:
            self._workspaces[key] = torch.empty(shape, dtype=torch.float32, device=device)
        return self._workspaces[key]

    def forward(self, a, b):
        M, K = a.shape
        _, N = b.shape
        ws = self._workspace((self.SPLITS, M, N), a.device)
        per_split = triton.cdiv(triton.cdiv(K, self.SPLITS), 16) * 16
        partial_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32), self.SPLITS)](
            a, b, ws, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), per_split, BM=32, BN=32, BK=16
        )
        c = torch.empty(M, N, dtype=a.dtype, device=a.device)
        reduce_kernel[(triton.cdiv(M * N, 512),)](ws, c, M * N, SPLITS=self.SPLITS, BLOCK=512)
        return c
