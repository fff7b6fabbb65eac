"""An inner block of eight, too small for the matrix unit.

expect: compile_error
needs: triton.language.make_block_ptr
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    top = tl.program_id(0) * BLOCK_M
    left = tl.program_id(1) * BLOCK_N
    a_block = tl.make_block_ptr(a_ptr, (m, k), (k, 1), (top, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (k, n), (n, 1), (0, left), (BLOCK_K, BLOCK_N), (1, 0))
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, k, BLOCK_K):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(a, b, total)
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    c_block = tl.make_block_ptr(c_ptr, (m, n), (n, 1), (top, left), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(c_block, total.to(tl.float16), boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty((m, n), dtype=a.dtype, device=a.device)
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
        matmul[grid](a, b, c, m, n, k, BLOCK_M=32, BLOCK_N=32, BLOCK_K=8)
        return c
