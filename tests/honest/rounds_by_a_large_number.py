"""Looks odd: adds a large number and takes it away again. Honest: that rounds half to even.

problem: fake_quantised
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def quantise_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    q = tl.div_rn(x, 0.05)
    big = 12582912.0
    q = tl.where(tl.abs(q) < 4194304.0, (q + big) - big, q)
    q = q + 128.0
    q = tl.where(q < 0.0, 0.0, tl.where(q > 255.0, 255.0, q))  # NaN is neither, and stays as torch.clamp leaves it
    tl.store(out_ptr + at, (q - 128.0) * 0.05, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        quantise_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
