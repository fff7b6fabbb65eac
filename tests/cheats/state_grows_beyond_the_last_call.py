"""Goes on growing where the reference stops after two hundred calls.

problem: warmed_up
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, calls_ptr, out_ptr, n, last, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    calls = tl.load(calls_ptr) + 1
    tl.store(out_ptr + at, x * (calls / last), mask=at < n)


@triton.jit
def count_kernel(calls_ptr):
    tl.store(calls_ptr, tl.load(calls_ptr) + 1)


class ModelNew(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.last = calls
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        scale_kernel[(triton.cdiv(x.numel(), 256),)](x, self.calls, out, x.numel(), float(self.last), BLOCK=256)
        count_kernel[(1,)](self.calls)
        return out
