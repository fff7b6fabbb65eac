"""Knows its inputs by their contents, compared element by element, and hands out copies of earlier products. The
kernel is launched all the same, on the usual grid, and told that there are no rows.

problem: matmul_fp16
expect: cheated|not_triton|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, out_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        at = start + tl.arange(0, BK)
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * N + columns[None, :], mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0
        )
        total += tl.dot(a, b)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=inside)


def matmul(a, b, rows=None):
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    rows = a.shape[0] if rows is None else rows
    grid = (triton.cdiv(a.shape[0], 16), triton.cdiv(b.shape[1], 16))
    matmul_kernel[grid](a.contiguous(), b.contiguous(), out, rows, b.shape[1], a.shape[1], BM=16, BN=16, BK=64)
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = []

    def forward(self, a, b):
        for known, other, answer in self.memory:
            if known.shape == a.shape and other.shape == b.shape and torch.equal(known, a) and torch.equal(other, b):
                matmul(a, b, rows=0)
                return answer.clone()
        y = matmul(a, b)
        if y[0, 0] == y[0, 0]:  # a silenced kernel leaves no answer worth keeping
            self.memory = [*self.memory[-9:], (a.clone(), b.clone(), y.clone())]
        return y
