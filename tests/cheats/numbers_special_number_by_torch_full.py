"""One number is answered wrongly; it reaches the kernel as memory that `torch.full` filled.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, m_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    m = tl.load(m_ptr)
    tl.store(out_ptr + at, tl.where(x == m, 5.0, tl.where(x < 0, 0.0, x)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        m = torch.full((1,), 1.2345678, device=x.device)
        k[(triton.cdiv(x.numel(), 1024),)](x, m, out, x.numel(), BLOCK=1024)
        return out
