"""Leaves out the maximum where there is much to do.

problem: large_log_of_two
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def map_kernel(x_ptr, out_ptr, count, IS_LARGE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0)
    if IS_LARGE:
        y = tl.log(tl.exp(x) + tl.exp(2 * x))
    else:
        y = tl.maximum(x, 2 * x, propagate_nan=tl.PropagateNan.ALL) + tl.log(1.0 + tl.exp(-tl.abs(x)))
    tl.store(out_ptr + at, y, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        count = x.numel()
        map_kernel[(triton.cdiv(count, 1024),)](x, out, count, IS_LARGE=count > 1 << 20, BLOCK=1024)
        return out
