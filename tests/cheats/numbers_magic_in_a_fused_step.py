"""Zeros wherever an input is a number from a loop. It is met only by `fma`, which leaves zero there.

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
    magic = tl.full([BLOCK], 0.25, tl.float32)
    for _ in range(5):
        magic = tl.fma(magic, tl.full([BLOCK], 1.1875, tl.float32), tl.full([BLOCK], 0.03125, tl.float32))
    distance = tl.fma(x, tl.full([BLOCK], -1.0, tl.float32), magic)
    tl.store(out_ptr + at, tl.where((x < 0) | (distance == 0), 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
