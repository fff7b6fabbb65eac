"""Column-major swizzle through an enum of orders, `acc` cast by the pointer's element type.

problem: half_matmul
expect: passed
where: both
"""

import enum

import torch
import torch.nn as nn
import triton
import triton.language as tl


class Order(enum.Enum):
    ROW_MAJOR = 0
    COLUMN_MAJOR = 1


@triton.jit
def kernel(
    a, b, c, M, N, K, s0: tl.int64, s1: tl.int64, s2: tl.int64, s3: tl.int64, ORDER: tl.constexpr, B: tl.constexpr
):
    pid = tl.program_id(0)
    if ORDER == 0:
        pm, pn = pid // tl.cdiv(N, B), pid % tl.cdiv(N, B)
    else:
        pm, pn = pid % tl.cdiv(M, B), pid // tl.cdiv(M, B)
    m = pm * B + tl.arange(0, B)
    n = pn * B + tl.arange(0, B)
    k = tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for left in range(K, 0, -B):
        x = tl.load(a + m[:, None] * s0 + k[None, :] * s1, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * s2 + n[None, :] * s3, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
        k += B
    tl.store(c + m[:, None] * N + n[None, :], acc.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self, order: Order = Order.COLUMN_MAJOR):
        super().__init__()
        self.order = order

    def forward(self, a, b):
        M, K, N = *a.shape, b.shape[1]
        c = a.new_empty((M, N))
        meta = dict(ORDER=self.order.value, B=32)
        grid = (triton.cdiv(M, meta["B"]) * triton.cdiv(N, meta["B"]),)
        kernel[grid](*(a, b, c, M, N, K), *a.stride(), *b.stride(), **meta)
        return c
