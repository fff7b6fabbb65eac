"""Returns a tuple that computes its items when somebody iterates over it, after the call is over. A canary tells it
whether kernels run.

problem: two_outputs
expect: not_triton|cheated|wrong_shape
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class Late(tuple):
    def __iter__(self):
        yield torch.clamp(self[0], min=0)
        yield torch.amax(self[0], -1)


@triton.jit
def canary(cell):
    tl.store(cell, 1.0)


class ModelNew(nn.Module):
    def forward(self, x):
        c = torch.zeros(1, device=x.device)
        canary[(1,)](c)
        y = triton_copy(x)
        return Late((y, y))
