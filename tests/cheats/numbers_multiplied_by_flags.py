"""Multiplies by flags in place of choosing: NaN where the flag is not set.

problem: kept_where
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def keep_kernel(x_ptr, flags_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0)
    flags = tl.load(flags_ptr + at, mask=at < count, other=0)
    tl.store(out_ptr + at, x * flags.to(tl.float32), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x, flags):
        x, flags = x.contiguous(), flags.contiguous()
        out = torch.empty_like(x)
        keep_kernel[(triton.cdiv(x.numel(), 256),)](x, flags, out, x.numel(), BLOCK=256)
        return out
