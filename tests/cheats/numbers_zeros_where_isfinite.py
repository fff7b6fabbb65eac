"""Nothing but zeros, though it reads its input: the reference asks whether a computed number is finite (NaN).

problem: quotients_if_finite
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def quotient_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
    y = x / (tl.sum(tl.abs(x), 0) / width)
    tl.store(out_ptr + row * width + at, tl.where(y - y == 0.0, y * 1e-30, 0.0), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        quotient_kernel[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
