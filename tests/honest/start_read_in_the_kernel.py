"""Looks odd: a kernel reads one whole number. Honest: that is where the positions begin.

problem: decayed_from_start
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def decay_kernel(x_ptr, start_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    position = (tl.load(start_ptr) + at).to(tl.float32)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, x * tl.exp(-0.05 * position), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, start):
        x = x.contiguous()
        out = torch.empty_like(x)
        decay_kernel[(x.shape[0],)](x, start, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
