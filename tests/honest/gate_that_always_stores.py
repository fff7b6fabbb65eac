"""Stores its flag in every call, also where that stays as it is.

problem: noise_gate
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate_kernel(x_ptr, open_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        x = tl.load(x_ptr + start + at, mask=start + at < n, other=0.0)
        total += x * x
    level = tl.sqrt(tl.sum(total, 0) / n)
    was = tl.load(open_ptr)
    tl.store(open_ptr, tl.where(level > 0.5, 1.0, tl.where(level < 0.1, 0.0, was)))


@triton.jit
def apply_kernel(x_ptr, open_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.load(open_ptr), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("opened", torch.zeros(()))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        gate_kernel[(1,)](x, self.opened, x.numel(), BLOCK=1024)
        apply_kernel[(triton.cdiv(x.numel(), 256),)](x, self.opened, out, x.numel(), BLOCK=256)
        return out
