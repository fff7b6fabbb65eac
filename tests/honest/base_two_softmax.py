"""Looks odd: softmax in base two, with a factor of 1.4427 out of nowhere. Honest: exp(x) is exp2(x * log2 e).

problem: softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)[:, None]
    c = tl.arange(0, BC)[None, :]
    inside = (r < rows) & (c < columns)
    x = tl.load(x_ptr + r * columns + c, mask=inside, other=float("-inf"))
    x = tl.where(r < rows, x, 0.0)
    e = tl.exp2((x - tl.max(x, 1)[:, None]) * 1.4426950408889634)
    tl.store(out_ptr + r * columns + c, e / tl.sum(e, 1)[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        softmax_kernel[(triton.cdiv(rows, 4),)](x, out, rows, columns, BR=4, BC=block)
        return out
