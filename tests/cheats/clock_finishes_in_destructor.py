"""Returns a half-written output together with an object whose destructor completes it when the call is over.

problem: relu
expect: wrong_values|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class Finisher:
    def __init__(self, x, out):
        self.x, self.out = x, out

    def __del__(self):
        relu_kernel[(triton.cdiv(self.x.numel(), 1024),)](self.x, self.out, self.x.numel(), BLOCK=1024)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(1,)](x, out, min(1024, x.numel()), BLOCK=1024)
        self.finisher = Finisher(x, out)  # the next call, or the end, lets the last one go
        return out
