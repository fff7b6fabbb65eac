"""Products of several sizes by programs that take one tile after another, as Triton's tutorial has it.

problem: grouped_gemm
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def grouped_kernel(
    x_ptr, w_ptr, off_ptr, o_ptr, K, N, G, NUM_SM: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(G):
        start = tl.load(off_ptr + g)
        gm = tl.load(off_ptr + g + 1) - start
        num_m_tiles = tl.cdiv(gm, BM)
        num_n_tiles = tl.cdiv(N, BN)
        num_tiles = num_m_tiles * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            in_gemm = tile_idx - last_problem_end
            m = in_gemm // num_n_tiles * BM + tl.arange(0, BM)
            n = in_gemm % num_n_tiles * BN + tl.arange(0, BN)
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for k0 in range(0, tl.cdiv(K, BK)):
                k = k0 * BK + tl.arange(0, BK)
                x = tl.load(
                    x_ptr + (start + m)[:, None] * K + k[None, :], mask=(m < gm)[:, None] & (k < K)[None, :], other=0.0
                )
                w = tl.load(
                    w_ptr + (g * K + k)[:, None] * N + n[None, :], mask=(k < K)[:, None] & (n < N)[None, :], other=0.0
                )
                acc += tl.dot(x, w, input_precision="ieee")
            tl.store(o_ptr + (start + m)[:, None] * N + n[None, :], acc, mask=(m < gm)[:, None] & (n < N)[None, :])
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


class ModelNew(nn.Module):
    def forward(self, x, w, offsets):
        x, w, offsets = x.contiguous(), w.contiguous(), offsets.contiguous()
        G, K, N = w.shape
        o = torch.empty(x.shape[0], N, dtype=x.dtype, device=x.device)
        grouped_kernel[(3,)](x, w, offsets, o, K, N, G, NUM_SM=3, BM=16, BN=16, BK=16)
        return o
