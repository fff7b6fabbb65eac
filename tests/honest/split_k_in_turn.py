"""Looks odd: programs wait for a ticket and go on with what another one left. Honest: split-K that adds up in a fixed order.

problem: matmul_fp16
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    acc_ptr,
    ticket_ptr,
    M,
    N,
    K,
    SPLIT: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    tile, part = tl.program_id(0), tl.program_id(1)
    tiles_n = tl.cdiv(N, BN)
    m = tile // tiles_n * BM + tl.arange(0, BM)
    n = tile % tiles_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k0 in range(part * BK, K, SPLIT * BK):
        k = k0 + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    inside = (m[:, None] < M) & (n[None, :] < N)
    at = m[:, None] * N + n[None, :]
    while tl.atomic_add(ticket_ptr + tile, 0) != part:
        pass
    if part > 0:
        acc += tl.load(acc_ptr + at, mask=inside, other=0.0)
    if part == SPLIT - 1:
        tl.store(c_ptr + at, acc.to(tl.float16), mask=inside)
        tl.atomic_xchg(ticket_ptr + tile, 0)
    else:
        tl.store(acc_ptr + at, acc, mask=inside)
        tl.debug_barrier()
        tl.atomic_add(ticket_ptr + tile, 1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = {}

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        M, K = a.shape
        N = b.shape[1]
        tiles = triton.cdiv(M, 16) * triton.cdiv(N, 16)
        if (M, N) not in self.kept:
            self.kept[M, N] = (
                torch.zeros(tiles, dtype=torch.int32, device=a.device),
                torch.empty(M, N, device=a.device),
            )
        ticket, acc = self.kept[M, N]
        c = torch.empty(M, N, dtype=a.dtype, device=a.device)
        matmul_kernel[(tiles, 4)](a, b, c, acc, ticket, M, N, K, SPLIT=4, BM=16, BN=16, BK=32)
        return c
