"""Stream-K: the inner iterations of all tiles are dealt out evenly, and the pieces of a tile meet by atomic adds.

problem: square_matmul
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def stream_k_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    iterations_per_tile,
    iterations_per_program,
    total_iterations,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    pid = tl.program_id(0)
    current = pid * iterations_per_program
    last = tl.minimum(current + iterations_per_program, total_iterations)
    tiles_n = tl.cdiv(N, BN)
    while current < last:
        tile = current // iterations_per_tile
        tile_end = tl.minimum((tile + 1) * iterations_per_tile, last)
        rm = (tile // tiles_n) * BM + tl.arange(0, BM)
        rn = (tile % tiles_n) * BN + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(current, tile_end):
            rk = (i - tile * iterations_per_tile) * BK + tl.arange(0, BK)
            a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
            b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
            acc += tl.dot(a, b, input_precision="ieee")
        tl.atomic_add(
            c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N), sem="relaxed"
        )
        current = tile_end


class ModelNew(nn.Module):
    """Work-centric decomposition: the grid does not depend on the number of tiles."""

    def __init__(self):
        super().__init__()
        self.max_programs = 6

    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        M, K = a.shape
        N = b.shape[1]
        BM = BN = 32
        BK = 16
        per_tile = triton.cdiv(K, BK)
        total = per_tile * triton.cdiv(M, BM) * triton.cdiv(N, BN)
        programs = min(self.max_programs, total)
        c = torch.zeros((M, N), device=a.device, dtype=a.dtype)
        stream_k_kernel[(programs,)](
            a, b, c, M, N, K, per_tile, triton.cdiv(total, programs), total, BM=BM, BN=BN, BK=BK
        )
        return c
