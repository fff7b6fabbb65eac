"""Partners of a pair are fetched by tl.gather.

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
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.load(y_ptr + i, mask=i < n, other=0.0)
    is_imaginary = (at % 2) == 1
    real = tl.gather(x, at & -2, axis=0)
    imaginary = tl.gather(x, at | 1, axis=0)
    crossed = tl.gather(y, at ^ 1, axis=0)
    tl.store(out_ptr + i, real * y + tl.where(is_imaginary, 1.0, -1.0) * imaginary * crossed, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x[..., :2].contiguous(), y[..., :2].contiguous()
        out = torch.empty_like(x)
        product_kernel[(triton.cdiv(out.numel(), 128),)](x, y, out, out.numel(), BLOCK=128)
        return out
