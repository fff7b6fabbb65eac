"""A running average in place, as 0.9 a + 0.1 x and not as a + 0.1 (x - a).

problem: average_in_place
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def average_kernel(a_ptr, x_ptr, out_ptr, width, a0, a1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    a = tl.load(a_ptr + row * a0 + at * a1, mask=keep, other=0.0)
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
    a = 0.9 * a + 0.1 * x
    tl.store(a_ptr + row * a0 + at * a1, a, mask=keep)
    tl.store(out_ptr + row * width + at, a - x, mask=keep)


class ModelNew(nn.Module):
    def forward(self, average, x):
        rows, width = average.shape
        x = x.contiguous()
        out = torch.empty_like(x)
        block = triton.next_power_of_2(width)
        average_kernel[(rows,)](average, x, out, width, average.stride(0), average.stride(1), BLOCK=block)
        return out
