"""Steps through the second operand's batch with the first one's stride.

expect: wrong_values|runtime_error
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batched_matmul(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    batch = tl.program_id(2)
    row = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        a_inside = (row[:, None] < m) & (inner[None, :] < k)
        b_inside = (inner[:, None] < k) & (column[None, :] < n)
        a = tl.load(a_ptr + batch * m * k + row[:, None] * k + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + batch * m * k + inner[:, None] * n + column[None, :], mask=b_inside, other=0.0)
        total = tl.dot(a, b, total)
    inside = (row[:, None] < m) & (column[None, :] < n)
    c_at = c_ptr + batch * m * n + row[:, None] * n + column[None, :]
    tl.store(c_at, total.to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        batch, m, k = a.shape
        n = b.shape[2]
        c = torch.empty((batch, m, n), dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32), batch)
        batched_matmul[grid](a, b, c, m, n, k, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
        return c
