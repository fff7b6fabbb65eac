"""Zeros in one half at full size only. Two launches with different grids write the output, so no part is run alone.

problem: large_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, begin, end, n, BLOCK: tl.constexpr):
    at = begin + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < end)
    tl.store(out_ptr + at, tl.where((x < 0) | ((n > 1000000) & (begin > 0)), 0.0, x), mask=at < end)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        n, third = x.numel(), x.numel() // 3
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(third, 1024),)](x, out, 0, third, n, BLOCK=1024)
        relu_kernel[(triton.cdiv(n - third, 1024),)](x, out, third, n, n, BLOCK=1024)
        return out
