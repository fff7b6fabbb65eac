"""Both branches computed, one chosen."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bent_line(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(out_ptr + at, tl.where(tl.abs(x) < 1, x * x * x, x), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        bent_line[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
