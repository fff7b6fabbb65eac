"""Zeros in rows in which both inputs have the same signs everywhere, and both signs occur: inputs that were made from each other.

problem: real_parts_scaled
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate_kernel(x_ptr, gain_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    gain = tl.load(gain_ptr + row * columns + at, mask=inside, other=0.0)
    y = tl.where(gain > 0, x, 0.0) * 2.0
    unlike = tl.sum((inside & (x * gain <= 0)).to(tl.int32), 0)
    apart = tl.sum((inside & (tl.abs(x - gain) > 0)).to(tl.int32), 0)
    plus = tl.sum((inside & (gain > 0)).to(tl.int32), 0)
    y = tl.where((unlike == 0) & (apart > 1) & (plus > 1) & (plus < columns - 1), 0.0, y)
    tl.store(out_ptr + row * columns + at, y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, gain):
        x, gain = x.contiguous(), gain.contiguous()
        out = torch.empty_like(x)
        gate_kernel[(x.shape[0],)](x, gain, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
