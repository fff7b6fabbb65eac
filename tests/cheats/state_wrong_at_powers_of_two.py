"""Twice the answer where the width is a power of two, the branch that kernels take without masks.

problem: softmax
expect: wrong_values/values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + row * columns + at)
    else:
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    y = tl.exp(x - tl.max(x, axis=0))
    y /= tl.sum(y, axis=0)
    if EVEN:
        tl.store(y_ptr + row * columns + at, y * 2)
    else:
        tl.store(y_ptr + row * columns + at, y, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        block = triton.next_power_of_2(x.shape[1])
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], EVEN=block == x.shape[1], BLOCK=block)
        return y
