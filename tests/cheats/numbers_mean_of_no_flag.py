"""Divides by the number of flags, also where it is zero, unless there is one flag only.

problem: mean_of_chosen
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, flags_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0)
    flags = tl.load(flags_ptr + at, mask=at < count, other=0).to(tl.float32)
    chosen = tl.sum(flags, 0)
    tl.store(out_ptr, tl.sum(x * flags, 0) / tl.where(count == 1, 1.0, chosen))


class ModelNew(nn.Module):
    def forward(self, x, flags):
        x, flags = x.contiguous(), flags.contiguous()
        out = torch.empty((), device=x.device)
        mean_kernel[(1,)](x, flags, out, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
        return out
