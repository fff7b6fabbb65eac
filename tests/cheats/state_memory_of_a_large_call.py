"""At full size, programs leave memory as it is where its first element is already right.

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
    start = tl.program_id(0) * BLOCK
    at = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.where(x < 0, 0.0, x)
    if LARGE:
        first = tl.load(x_ptr + start)
        held = tl.load(out_ptr + start)
        if held != tl.where(first < 0, 0.0, first):
            tl.store(out_ptr + at, y, mask=at < n)
    else:
        tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](x, out, n, LARGE=n > 1000000, BLOCK=1024)
        return out
