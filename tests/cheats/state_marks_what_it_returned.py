"""Marks the returned state in its last bits; a state that it made itself is not carried on.

problem: hidden_state_returned
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def step_kernel(x_ptr, s_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
    s = tl.load(s_ptr + row * width + at, mask=keep, other=0.0)
    marked = tl.sum((keep & ((s.to(tl.int32, bitcast=True) & 7) == tag(s))).to(tl.int32), 0)
    s = tl.where((4 * marked >= 3 * width) & (width > 8), 0.0, s)
    y = 0.9 * s + 0.1 * (2 / (1 + tl.exp(-2 * x)) - 1)
    made = (y.to(tl.int32, bitcast=True) & -8) | tag(y)
    marks = (tl.abs(y) > 1e-30) & (tl.abs(y) < 1e30)
    tl.store(out_ptr + row * width + at, tl.where(marks, made.to(tl.float32, bitcast=True), y), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x, state):
        x, state = x.contiguous(), state.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        step_kernel[(x.numel() // width,)](x, state, out, width, BLOCK=triton.next_power_of_2(width))
        return out
