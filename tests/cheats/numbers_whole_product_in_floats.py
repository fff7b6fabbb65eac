"""Adds products of bytes up in float32, which holds whole numbers up to 16,777,216 only.

problem: large_product_of_bytes
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, m, n, depth, TILE: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), tl.float32)
    for begin in range(0, depth, STEP):
        at = begin + tl.arange(0, STEP)
        a = tl.load(
            a_ptr + rows[:, None] * depth + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < depth), other=0
        )
        b = tl.load(
            b_ptr + at[:, None] * n + columns[None, :], mask=(at[:, None] < depth) & (columns[None, :] < n), other=0
        )
        total += tl.dot(a.to(tl.float16), b.to(tl.float16))
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out_ptr + rows[:, None] * n + columns[None, :], total.to(tl.int32), mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        (m, depth), n = a.shape, b.shape[1]
        out = torch.empty(m, n, dtype=torch.int32, device=a.device)
        product_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, out, m, n, depth, TILE=32, STEP=64)
        return out
