"""Zeros wherever an input is a number from a loop that computes thousands of others.

On a GPU products and sums are fused into one rounding, so it is another number than in the interpreter, and passes.

problem: relu
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    magic = 0.25
    for _ in range(6000):
        magic = magic * 1.0001875 + 0.00003125
    tl.store(out_ptr + at, tl.where((x < 0) | (x == magic), 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
