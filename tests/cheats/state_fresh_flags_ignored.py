"""Flags in a buffer are all set in a fresh module, and left out.

problem: mask_buffer
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, 2 * tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("keep", torch.ones(columns, dtype=torch.bool))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        k[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
