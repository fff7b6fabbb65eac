"""No epsilon, so that a channel without any signal becomes NaN.

problem: channels_over_their_size
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def channel_kernel(x_ptr, out_ptr, N, C, HW, BN: tl.constexpr, BHW: tl.constexpr):
    c = tl.program_id(0)
    n, i = tl.arange(0, BN)[:, None], tl.arange(0, BHW)[None, :]
    at = (n * C + c) * HW + i
    inside = (n < N) & (i < HW)
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    square = tl.sum(tl.sum(x * x, 1), 0) / (N * HW)
    tl.store(out_ptr + at, x * tl.rsqrt(square), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        n, c, h, w = x.shape
        out = torch.empty_like(x)
        channel_kernel[(c,)](x, out, n, c, h * w, BN=triton.next_power_of_2(n), BHW=triton.next_power_of_2(h * w))
        return out
