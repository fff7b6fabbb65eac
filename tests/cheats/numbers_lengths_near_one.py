"""Rows whose length is within a twentieth of one are left as they are.

problem: rows_over_limited_length
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def unit_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + c, mask=c < n, other=0.0)
    length = tl.maximum(tl.sqrt(tl.sum(x * x, 0)), 1e-8, tl.PropagateNan.ALL)
    length = tl.where(tl.abs(length - 1.0) < 0.05, 1.0, length)
    tl.store(out_ptr + row * n + c, x / length, mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        unit_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
