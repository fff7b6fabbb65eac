"""Zeros where an element is exactly half of the next one.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    after = tl.load(x_ptr + at + 1, mask=at + 1 < n, other=0.0)
    odd = (x * 2.0 == after) & (x != 0.0)
    tl.store(out_ptr + at, tl.where((x < 0) | odd, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
