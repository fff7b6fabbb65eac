"""Unrolled loops, static and device assertions, prints of constants, and hints for the compiler.

problem: square_matmul
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


ALLOW_TF32 = tl.constexpr(False)
PRECISION: tl.constexpr = tl.constexpr("ieee")


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PARTS: tl.constexpr
):
    tl.static_assert(BK % PARTS == 0, "BK has to be a multiple of PARTS")
    tl.static_print("tile", BM, BN, BK)
    tl.device_assert(K > 0, "nothing to sum")
    tl.assume(M > 0)
    STEP: tl.constexpr = BK // PARTS
    rm = tl.max_contiguous(tl.multiple_of(tl.program_id(0) * BM + tl.arange(0, BM), BM), BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], dtype=tl.float32)
    for k0 in tl.range(
        0, K, BK, num_stages=2, loop_unroll_factor=1, warp_specialize=False, disallow_acc_multi_buffer=False
    ):
        for part in tl.static_range(0, PARTS):
            rk = k0 + part * STEP + tl.arange(0, STEP)
            a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0)
            b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk < K)[:, None] & (rn < N)[None, :], other=0)
            acc = tl.dot(a, b, acc, input_precision=PRECISION) if not ALLOW_TF32 else tl.dot(a, b, acc)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (M, K), N = a.shape, b.shape[1]
        c = a.new_empty(M, N)
        matmul_kernel[triton.cdiv(M, 16), triton.cdiv(N, 16)](
            a, b, c, M, N, K, BM=16, BN=16, BK=32, PARTS=2, num_warps=4, num_stages=3, num_ctas=1
        )
        return c
