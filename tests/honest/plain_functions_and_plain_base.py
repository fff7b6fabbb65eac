"""Looks odd: ModelNew inherits from a class of this file and defines no forward itself. Honest: the base launches.

problem: scaled_add
expect: passed
where: both
"""

import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit(do_not_specialize=["n"])
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.fma(x, tl.full((BLOCK,), 1.0, tl.float32) * scale, y), mask=at < n)


def scaled_add(x, y, scale):
    out = torch.empty_like(x)
    if (n := x.numel()) > 0:
        scaled_add_kernel[triton.cdiv(n, 1024), 1](x, y, out, n, scale, BLOCK=1024)
    return out


class TritonModule(nn.Module):
    scale = 2.0

    def forward(self, *tensors, **unused):
        return scaled_add(*(tensor.contiguous() for tensor in tensors), self.scale)


class ModelNew(TritonModule):
    scale: float = 2.0
