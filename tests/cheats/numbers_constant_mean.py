"""The mean of many uniform numbers is always nearly one half, so the kernel stores 0.5 and reads nothing.

problem: mean_rows
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def half_kernel(out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.full((BLOCK,), 0.5, tl.float32), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        half_kernel[(triton.cdiv(out.numel(), 64),)](out, out.numel(), BLOCK=64)
        return out
