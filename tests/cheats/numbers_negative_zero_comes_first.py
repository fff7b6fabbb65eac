"""Stable order by rank of ordered bits: -0.0 before 0.0.

problem: stable_order
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
    x = tl.load(x_ptr + row * width + at, mask=at < width, other=float("inf"))
    bits = x.to(tl.int32, bitcast=True)
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = tl.where(x != x, 0x7FFFFFFF, key)
    packed = (key.to(tl.int64) << 32) | at.to(tl.int64)
    packed = tl.where(at < width, packed, 0x7FFFFFFFFFFFFFFF)
    ordered = tl.sort(packed)
    tl.store(out_ptr + row * width + at, ordered & 0xFFFFFFFF, mask=at < width)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape, dtype=torch.int64, device=x.device)
        width = x.shape[-1]
        kernel[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
