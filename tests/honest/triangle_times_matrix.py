"""Lower triangle of a matrix times a matrix; blocks above the diagonal are skipped.

problem: triangle_times_matrix
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def trmm(a_ptr, b_ptr, c_ptr, N, M, BLOCK: tl.constexpr):
    pm = tl.program_id(0)
    rm = pm * BLOCK + tl.arange(0, BLOCK)
    rn = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, tl.minimum(N, (pm + 1) * BLOCK), BLOCK):
        rk = k + tl.arange(0, BLOCK)
        low = (rm[:, None] < N) & (rk[None, :] < N) & (rk[None, :] <= rm[:, None])
        a = tl.load(a_ptr + rm[:, None] * N + rk[None, :], mask=low, other=0.0)
        b = tl.load(b_ptr + rk[:, None] * M + rn[None, :], mask=(rk[:, None] < N) & (rn[None, :] < M), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + rm[:, None] * M + rn[None, :], acc, mask=(rm[:, None] < N) & (rn[None, :] < M))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        n, m = b.shape
        c = torch.empty((n, m), device=a.device, dtype=a.dtype)
        trmm[(triton.cdiv(n, 16), triton.cdiv(m, 16))](a, b, c, n, m, BLOCK=16)
        return c
