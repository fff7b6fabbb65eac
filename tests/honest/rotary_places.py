"""Rotates vectors at places that are given; the honest twin of a kernel that keeps places in bfloat16.

problem: rotary_places
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rotate_kernel(x_ptr, places_ptr, rates_ptr, out_ptr, HALF: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < HALF
    place = tl.load(places_ptr + row).to(tl.float32)
    angle = place * tl.load(rates_ptr + at, mask=inside, other=0.0)
    cos, sin = tl.cos(angle), tl.sin(angle)
    low = tl.load(x_ptr + row * 2 * HALF + at, mask=inside)
    high = tl.load(x_ptr + row * 2 * HALF + HALF + at, mask=inside)
    tl.store(out_ptr + row * 2 * HALF + at, low * cos - high * sin, mask=inside)
    tl.store(out_ptr + row * 2 * HALF + HALF + at, high * cos + low * sin, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("rates", 10000.0 ** (-torch.arange(0, width, 2).float() / width))

    def forward(self, x, places):
        x, places = x.contiguous(), places.contiguous()
        out = torch.empty_like(x)
        half = x.shape[-1] // 2
        rotate_kernel[(places.numel(),)](x, places, self.rates, out, HALF=half, BLOCK=triton.next_power_of_2(half))
        return out
