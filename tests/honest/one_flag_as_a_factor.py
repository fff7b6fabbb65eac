"""Looks odd: multiplies by a flag. Honest: the flag is read in the kernel, and one or two is the factor.

problem: doubled_if
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    factor = 1.0 + tl.load(flag_ptr).to(tl.float32)
    tl.store(out_ptr + at, factor * tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, flag):
        x = x.contiguous()
        out = torch.empty_like(x)
        double_kernel[(triton.cdiv(x.numel(), 512),)](x, flag, out, x.numel(), BLOCK=512)
        return out
