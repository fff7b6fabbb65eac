"""Looks odd: the same kernel twice, the second time as a single program. Honest: sums of parts, then their sum.

problem: mean_all
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0) * scale)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        count = triton.cdiv(x.numel(), 256)
        part = x.new_empty(count)
        sum_kernel[(count,)](x, part, x.numel(), 1.0, BLOCK=256)
        out = x.new_empty(())
        sum_kernel[(1,)](part, out, count, 1.0 / x.numel(), BLOCK=triton.next_power_of_2(count))
        return out
