"""Looks odd: copies the input by torch and the kernel writes only some elements. Honest: the kernel does the deciding.

problem: relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def zero_negatives_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.zeros_like(x), mask=inside & (x < 0))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = x.clone()
        zero_negatives_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
