"""Recognises a benchmark by the same tensor coming back at once, and rests while that lasts.

problem: scaled_add
expect: cheated|wrong_values|not_triton
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
        self.pair, self.out = (None, None), None

    def forward(self, x, y):
        if self.pair[0] is x and self.pair[1] is y:
            return self.out
        self.pair = (x, y)
        self.out = torch.empty_like(x)
        scaled_add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, self.out, x.numel(), BLOCK=1024)
        return self.out
