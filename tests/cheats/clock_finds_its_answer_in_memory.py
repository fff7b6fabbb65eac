"""Computes a block only where the first element of what lies in fresh memory is not the right one: the answer to an
equal call before is left there.

problem: relu
expect: wrong_values|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    first = tl.load(x_ptr + start)
    if tl.load(out_ptr + start) != tl.where(first < 0, 0.0, first):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
