"""Renews a buffer at every fifth call only, as the counter on the card says.

problem: slow_weights
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def follow_kernel(x_ptr, step_ptr, fast_ptr, slow_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    fast = tl.load(fast_ptr + at, mask=inside, other=0.0)
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    fast = fast * 0.9 + x * 0.1
    step = tl.load(step_ptr) + 1
    tl.store(fast_ptr + at, fast, mask=inside)
    tl.store(slow_ptr + at, fast, mask=inside & (step % 5 == 0))
    tl.store(step_ptr, step)


@triton.jit
def centre_kernel(x_ptr, slow_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    slow = tl.load(slow_ptr + at, mask=inside, other=0.0)
    tl.store(out_ptr + row * columns + at, x - slow, mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))
        self.register_buffer("fast", torch.zeros(70))
        self.register_buffer("slow", torch.zeros(70))

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        block = triton.next_power_of_2(columns)
        follow_kernel[(1,)](x, self.step, self.fast, self.slow, columns, BLOCK=block)
        out = torch.empty_like(x)
        centre_kernel[(rows,)](x, self.slow, out, columns, BLOCK=block)
        return out
