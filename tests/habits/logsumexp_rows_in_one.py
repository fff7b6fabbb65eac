"""A numerically stable log-sum-exp over several rows per program, with exp2 and log2 and module constants.

problem: row_logsumexp
expect: passed
where: both
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(math.log(2.0))


@triton.jit
def logsumexp_kernel(x_ptr, y_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r[:, None] * N + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N), other=float("-inf"))
    top = tl.max(x, axis=1)
    top = tl.where(r < M, top, 0.0)
    total = tl.sum(tl.exp2((x - top[:, None]) * LOG2E), axis=1)
    tl.store(y_ptr + r, top + tl.log2(total) * LN2, mask=r < M)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        M, N = x.shape
        y = torch.empty(M, dtype=x.dtype, device=x.device)
        logsumexp_kernel[(triton.cdiv(M, 4),)](x, y, M, N, ROWS=4, BLOCK=triton.next_power_of_2(N))
        return y
