"""Looks odd: torch.tril makes a tensor as large as the answer. Honest: it is a mask of flags, and the kernel selects.

problem: lower_part
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def select_kernel(x_ptr, mask_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    kept = tl.load(mask_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.where(kept != 0, x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        mask = torch.tril(torch.ones(x.shape, dtype=torch.bool, device=x.device))
        out = torch.empty_like(x)
        select_kernel[(triton.cdiv(x.numel(), 512),)](x, mask, out, x.numel(), BLOCK=512)
        return out
