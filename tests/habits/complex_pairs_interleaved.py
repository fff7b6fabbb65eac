"""Pairs are split, multiplied, joined and interleaved in registers.

problem: complex_pairs
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    i = start + tl.arange(0, BLOCK)
    x = tl.reshape(tl.load(x_ptr + i, mask=i < n, other=0.0), (BLOCK // 2, 2))
    y = tl.load(y_ptr + i, mask=i < n, other=0.0).reshape(BLOCK // 2, 2)
    a, b = tl.split(x)
    c, d = y.split()
    tl.store(out_ptr + i, tl.interleave(a * c - b * d, a * d + b * c), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.narrow(-1, 0, 2).contiguous(), y.narrow(-1, 0, 2).contiguous()
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        with torch.cuda.device(x.device):
            product_kernel[(triton.cdiv(out.numel(), 256),)](x, y, out, out.numel(), BLOCK=256)
        return out
