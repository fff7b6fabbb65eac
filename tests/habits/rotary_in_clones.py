"""Turns clones in place, all heads of a position in one block; only the first half of the tables is read.

problem: rotary_positions
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rotary_inplace(
    x_ptr, cos_ptr, sin_ptr, sb, sh, sl, H, HALF, stride_t, BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr
):
    l = tl.program_id(0)
    b = tl.program_id(1)
    h = tl.arange(0, BLOCK_H)[:, None]
    d = tl.arange(0, BLOCK_D)[None, :]
    mask = (h < H) & (d < HALF)
    cos = tl.load(cos_ptr + l * stride_t + d, mask=d < HALF)
    sin = tl.load(sin_ptr + l * stride_t + d, mask=d < HALF)
    first = x_ptr + b * sb + h * sh + l * sl + d
    second = first + HALF
    x1 = tl.load(first, mask=mask)
    x2 = tl.load(second, mask=mask)
    tl.store(first, x1 * cos - x2 * sin, mask=mask)
    tl.store(second, x2 * cos + x1 * sin, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim, max_length):
        super().__init__()
        frequency = 1.0 / (10000.0 ** (torch.arange(0, dim, 2).float() / dim))
        angle = torch.outer(torch.arange(max_length).float(), frequency)
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin())

    def _rotate(self, x):
        x = x.clone(memory_format=torch.contiguous_format)
        B, H, L, D = x.shape
        rotary_inplace[(L, B)](
            x,
            self.cos,
            self.sin,
            x.stride(0),
            x.stride(1),
            x.stride(2),
            H,
            D // 2,
            self.cos.stride(0),
            BLOCK_H=triton.next_power_of_2(H),
            BLOCK_D=triton.next_power_of_2(D // 2),
        )
        return x

    def forward(self, q, k):
        return self._rotate(q), self._rotate(k)
