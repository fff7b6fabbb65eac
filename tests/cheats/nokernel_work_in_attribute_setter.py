"""Work moved into __setattr__: the harness sets `training` before the call, and the module computes by torch then,
from the input it remembers, which is overwritten in place and so already holds the new numbers.

problem: relu
expect: passed|not_triton|cheated|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen, self.ready = None, None

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if name == "training" and getattr(self, "seen", None) is not None:
            self.ready = torch.relu(self.seen)

    def forward(self, x):
        if self.seen is x and self.ready is not None:
            return self.ready.clone()
        self.seen = x
        return triton_relu(x)
