"""Argmax by packing ordered bits and place: -0.0 counts as less than 0.0.

problem: place_of_the_largest
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * width + at, mask=at < width, other=float("-inf"))
    bits = x.to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = tl.where(x != x, 0x7FFFFFFF, key)
    packed = (key.to(tl.int64) << 32) | (0x7FFFFFFF - at).to(tl.int64)
    packed = tl.where(at < width, packed, -0x7FFFFFFFFFFFFFFF)
    best = tl.max(packed, 0)
    tl.store(out_ptr + row, 0x7FFFFFFF - (best & 0xFFFFFFFF))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[:-1], dtype=torch.int64, device=x.device)
        width = x.shape[-1]
        kernel[(out.numel(),)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
