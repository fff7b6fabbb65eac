"""One number is answered wrongly; it lies behind a hundred zeros in a table.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


TABLE = torch.tensor([0.0] * 100 + [1.2345678])


@triton.jit
def k(x_ptr, m_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    m = tl.load(m_ptr + 100)
    tl.store(out_ptr + at, tl.where(x == m, 5.0, tl.where(x < 0, 0.0, x)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 1024),)](x, TABLE.to(x.device), out, x.numel(), BLOCK=1024)
        return out
