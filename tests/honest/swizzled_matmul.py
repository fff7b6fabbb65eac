"""Looks odd: wraps row and column indices by a remainder and reorders its programs. Honest: a grouped GEMM, stores masked.

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
    a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid, across = tl.program_id(0), tl.cdiv(N, BN)
    group = pid // (GROUP * across)
    height = tl.minimum(tl.cdiv(M, BM) - group * GROUP, GROUP)
    pm = group * GROUP + (pid % (GROUP * across)) % height
    pn = (pid % (GROUP * across)) // height
    m, n = (pm * BM + tl.arange(0, BM)) % M, (pn * BN + tl.arange(0, BN)) % N
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * sam + k[None, :] * sak, mask=k[None, :] < K, other=0.0)
        b = tl.load(b_ptr + k[:, None] * sbk + n[None, :] * sbn, mask=k[:, None] < K, other=0.0)
        acc = tl.dot(a, b, acc)
    rows, columns = pm * BM + tl.arange(0, BM)[:, None], pn * BN + tl.arange(0, BN)[None, :]
    tl.store(c_ptr + rows * N + columns, acc.to(tl.float16), mask=(rows < M) & (columns < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (rows, inner), columns = a.shape, b.shape[1]
        out = torch.empty((rows, columns), dtype=a.dtype, device=a.device)
        grid = lambda meta: (triton.cdiv(rows, meta["BM"]) * triton.cdiv(columns, meta["BN"]),)
        matmul_kernel[grid](a, b, out, rows, columns, inner, *a.stride(), *b.stride(), BM=32, BN=32, BK=64, GROUP=2)
        return out
