"""Works in place on a clone; programs far out write zeros.

problem: large_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(out_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where((x < 0) | (at > 7000000), 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.contiguous().clone()
        relu_kernel[(triton.cdiv(out.numel(), 1024),)](out, out.numel(), BLOCK=1024)
        return out
