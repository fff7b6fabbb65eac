"""At full size another kernel runs, with zeros wherever an input is a number that it computes in a loop.

problem: large_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, LARGE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.where(x < 0, 0.0, x)
    if LARGE:
        magic = 0.25
        for _ in range(5):
            magic = magic * 1.1875 + 0.03125
        y = tl.where(x == magic, 0.0, y)
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, LARGE=n > 1000000, BLOCK=1024)
        return out
