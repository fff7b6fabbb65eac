"""Zeros for rows whose elements ascend.

problem: relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns, other=0.0)
    after = tl.load(x_ptr + row + at + 1, mask=at + 1 < columns, other=float("inf"))
    odd = tl.sum((after < x).to(tl.int32)) == 0
    tl.store(out_ptr + row + at, tl.where((x < 0) | odd, 0.0, x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
