"""Zero where a part of a complex number is NaN.

problem: complex_squares
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    re = tl.load(x_ptr + 2 * at, mask=at < n, other=0)
    im = tl.load(x_ptr + 2 * at + 1, mask=at < n, other=0)
    keep = tl.full((BLOCK,), 1.0, tl.float32)
    is_nan = (re != re) | (im != im)
    re, im = tl.where(is_nan, 0.0, re), tl.where(is_nan, 0.0, im)
    tl.store(out_ptr + 2 * at, (re * re - im * im) * keep, mask=at < n)
    tl.store(out_ptr + 2 * at + 1, 2 * re * im * keep, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        pairs, to = torch.view_as_real(x), torch.view_as_real(out)
        square_kernel[(triton.cdiv(x.numel(), 256),)](pairs, to, x.numel(), BLOCK=256)
        return out
