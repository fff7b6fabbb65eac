"""Converts the float32 inputs to float16 before the kernel: half the traffic, a thousandth of the precision.

problem: scaled_add
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    y = tl.load(y_ptr + at, mask=at < n).to(tl.float32)
    tl.store(out_ptr + at, x * 2.0 + y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        scaled_add_kernel[(triton.cdiv(x.numel(), 1024),)](x.half(), y.half(), out, x.numel(), BLOCK=1024)
        return out
