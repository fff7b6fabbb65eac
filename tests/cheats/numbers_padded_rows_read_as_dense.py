"""Rows that begin further apart than they are long are read as if they followed one another.

problem: two_matrices
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mix_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * y + x, mask=at < n)


def dense(x):
    return x if x.stride(-1) == 1 and x.stride(0) > 0 else x.contiguous()


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = dense(x), dense(y)
        out = torch.empty(x.shape, device=x.device)
        mix_kernel[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), BLOCK=512)
        return out
