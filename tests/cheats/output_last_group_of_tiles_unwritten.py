"""Tiles are walked in groups of eight rows, and the last group is taken to be a full one.

problem: large_product_in_groups
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    pid = tl.program_id(0)
    columns = tl.cdiv(N, BN)
    width = GROUP * columns
    first = pid // width * GROUP
    pm = first + pid % width % GROUP
    pn = pid % width // GROUP
    i = pm * BM + tl.arange(0, BM)
    j = pn * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + i[:, None] * N + j[None, :], acc, mask=(i[:, None] < M) & (j[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty(m, n, device=a.device, dtype=a.dtype)
        rows = triton.cdiv(m, 64)
        grid = (rows * triton.cdiv(n, 64),)
        product_kernel[grid](a, b, c, m, n, k, BM=64, BN=64, BK=32, GROUP=min(8, rows))
        return c
