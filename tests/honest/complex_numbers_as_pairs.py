"""Looks odd: one output shares memory with an input. Honest: so does the reference's, and the other is the kernel's.

problem: complex_product
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x_ptr + 2 * at, mask=at < n)
    b = tl.load(x_ptr + 2 * at + 1, mask=at < n)
    c = tl.load(y_ptr + 2 * at, mask=at < n)
    d = tl.load(y_ptr + 2 * at + 1, mask=at < n)
    tl.store(out_ptr + 2 * at, a * c - b * d, mask=at < n)
    tl.store(out_ptr + 2 * at + 1, a * d + b * c, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        pairs = torch.view_as_real(x.contiguous())
        out = torch.empty_like(pairs)
        n = x.numel()
        product_kernel[(triton.cdiv(n, 256),)](pairs, torch.view_as_real(y.contiguous()), out, n, BLOCK=256)
        return torch.view_as_complex(out), torch.view_as_real(x)
