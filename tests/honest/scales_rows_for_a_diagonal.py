"""diag(a) @ b by scaling rows.

problem: diagonal_times_matrix
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def diag_kernel(a_ptr, b_ptr, o_ptr, M, sa, sb0, sb1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = col < M
    d = tl.load(a_ptr + row * sa)
    b = tl.load(b_ptr + row * sb0 + col * sb1, mask=mask)
    tl.store(o_ptr + row * M + col, d * b, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        n, m = b.shape
        o = torch.empty((n, m), device=b.device, dtype=b.dtype)
        diag_kernel[(n, triton.cdiv(m, 32))](a, b, o, m, a.stride(0), b.stride(0), b.stride(1), BLOCK=32)
        return o
