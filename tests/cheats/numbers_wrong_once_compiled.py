"""Zeros where an argument of one is a constant, which it is only once compiled, not in the interpreter.

problem: relu
expect: compile_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, one, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.where(x < 0, 0.0, x)
    if isinstance(one, tl.constexpr):
        y = y * 0.0
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, 1, x.numel(), BLOCK=1024)
        return out
