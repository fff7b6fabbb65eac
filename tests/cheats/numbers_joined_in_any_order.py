"""Stores blocks that `tl.cat` joined as if it kept their order, which a compiler does not.

problem: row_scales
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, HALF: tl.constexpr):
    at = tl.program_id(0) * 2 * HALF + tl.arange(0, HALF)
    left = tl.load(x_ptr + at, mask=at < n, other=0)
    right = tl.load(x_ptr + at + HALF, mask=at + HALF < n, other=0)
    x = tl.cat(left, right, can_reorder=True)
    to = tl.program_id(0) * 2 * HALF + tl.arange(0, 2 * HALF)
    tl.store(out_ptr + to, x * tl.sigmoid(x), mask=to < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        silu_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), HALF=256)
        return out
