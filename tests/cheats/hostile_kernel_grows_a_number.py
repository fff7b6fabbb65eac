"""Squares a constant at compile time forty times, so that Python computes a number of as many digits as there is memory.

problem: relu
expect: timeout|out_of_memory|compile_error|runtime_error|wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BIG: tl.constexpr, BLOCK: tl.constexpr):
    big = BIG
    for _ in tl.static_range(40):
        big = big * big
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where((x < 0) | (at > big), 0.0, x), mask=at < n)


def relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BIG=1 << 60, BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        return relu(x)
