"""Launches on the first call of a pair and returns the same answer again on the second.

problem: scaled_add
expect: wrong_values|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * 2.0 + y, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.last = 0, None

    def forward(self, x, y):
        self.calls += 1
        if self.calls % 2 == 0 and self.last is not None and self.last.shape == x.shape:
            return self.last.clone()
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        scaled_add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        self.last = out
        return out.clone()
