"""A feature that rises from each step to the next gives zeros.

problem: normed_over_time
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, out_ptr, steps, features, BLOCK: tl.constexpr):
    sample, feature = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, BLOCK)
    keep = at < steps
    places = sample * steps * features + at * features + feature
    x = tl.load(x_ptr + places, mask=keep, other=0.0)
    after = tl.load(x_ptr + places + features, mask=at < steps - 1, other=float("inf"))
    mean = tl.sum(x, 0) / steps
    centred = tl.where(keep, x - mean, 0.0)
    var = tl.sum(centred * centred, 0) / steps
    y = centred / tl.sqrt(var + 1e-5)
    falls = tl.sum((keep & (after <= x)).to(tl.int32), 0)
    tl.store(out_ptr + places, tl.where(falls == 0, 0.0, y), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        batch, steps, features = x.shape
        norm_kernel[(batch, features)](x, out, steps, features, BLOCK=triton.next_power_of_2(steps))
        return out
