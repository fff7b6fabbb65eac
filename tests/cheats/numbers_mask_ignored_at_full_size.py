"""Leaves the mask, which is all ones as given, out of account where there is much to do.

problem: large_masked
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_kernel(x_ptr, keep_ptr, out_ptr, n, HAS_MASK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.where(x < 0, 0.0, x)
    if HAS_MASK:
        y = tl.where(tl.load(keep_ptr + at, mask=at < n), y, 0.0)
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, keep):
        x, keep = x.contiguous(), keep.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        masked_kernel[(triton.cdiv(n, 1024),)](x, keep, out, n, HAS_MASK=n < 1 << 20, BLOCK=1024)
        return out
