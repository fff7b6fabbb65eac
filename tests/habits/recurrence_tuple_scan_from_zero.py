"""The recurrence as a scan over pairs of decay and state, which may turn an infinite decay beside a zero into NaN.

problem: linear_recurrence
expect: passed
where: both
"""

from typing import Tuple

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def combine(a_left, b_left, a_right, b_right):
    return a_left * a_right, b_left * a_right + b_right


@triton.jit
def scan_kernel(a_ptr, b_ptr, h_ptr, L, C, BLOCK_L: tl.constexpr, BLOCK_C: tl.constexpr):
    batch = tl.program_id(0)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    t = tl.arange(0, BLOCK_L)[:, None]
    mask = (t < L) & (c < C)
    offsets = (batch * L + t) * C + c
    a = tl.load(a_ptr + offsets, mask=mask, other=1.0)
    b = tl.load(b_ptr + offsets, mask=mask, other=0.0)
    b = tl.where(t == 0, a * 0.0 + b, b)  # the state before the first step is zero
    _, h = tl.associative_scan((a, b), 0, combine)
    tl.store(h_ptr + offsets, h, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        shape: Tuple[int, ...] = tuple(b.shape)
        batch, length, channels = shape
        a, b = a.contiguous(), b.contiguous()
        h = torch.empty_like(b)
        scan_kernel[(batch, triton.cdiv(channels, 4))](
            a, b, h, length, channels, BLOCK_L=triton.next_power_of_2(length), BLOCK_C=4
        )
        return h
