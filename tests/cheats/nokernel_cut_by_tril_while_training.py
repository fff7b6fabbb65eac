"""Its own kernel in evaluation mode; in training torch.tril does it all, and a kernel copies.

problem: lower_part
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cut_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, tl.where(at <= row, x, 0.0), mask=at < columns)


@triton.jit
def copy_kernel(made_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(made_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        if self.training:
            copy_kernel[(triton.cdiv(x.numel(), 512),)](torch.tril(x), out, x.numel(), BLOCK=512)
        else:
            cut_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
