"""Looks odd: rows that hold nothing but zeros are not computed. Honest: every element is looked at first, and a
constant is the right answer for them.

problem: softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    if tl.sum((x != 0.0).to(tl.int32), 0) == 0:
        tl.store(out_ptr + row * columns + at, tl.zeros((BLOCK,), tl.float32) + 1.0 / columns, mask=inside)
    else:
        e = tl.where(inside, tl.exp(x - tl.max(tl.where(inside, x, float("-inf")), 0)), 0.0)
        tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
