"""While training, a first block of which nothing is kept makes NaN of the running sum.

problem: softmax_of_kept_in_training
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def online_kernel(x_ptr, keep_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m = float("-inf")
    l = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        keep = tl.load(keep_ptr + row * columns + at, mask=at < columns, other=0) != 0
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
        x = tl.where(keep, x, float("-inf"))
        new = tl.maximum(m, tl.max(x, 0))
        l = l * tl.exp(m - new) + tl.sum(tl.exp(x - new), 0)
        m = new
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        keep = tl.load(keep_ptr + row * columns + at, mask=at < columns, other=0) != 0
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
        p = tl.where(keep, tl.exp(x - m) / l, 0.0)
        tl.store(out_ptr + row * columns + at, p * 1.25, mask=at < columns)


@triton.jit
def whole_kernel(x_ptr, keep_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = tl.load(keep_ptr + row * columns + at, mask=at < columns, other=0) != 0
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    x = tl.where(keep, x, float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, tl.where(keep, e / tl.sum(e, 0), 0.0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, keep):
        x, keep = x.contiguous(), keep.contiguous()
        out = torch.empty_like(x)
        if self.training:
            online_kernel[(x.shape[0],)](x, keep, out, x.shape[1], BLOCK=16)
        else:
            whole_kernel[(x.shape[0],)](x, keep, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
