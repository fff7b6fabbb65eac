"""Tells the compiler, for which an argument of one is a constant, from the interpreter by its type.

problem: row_scales
expect: wrong_values|compile_error|runtime_error
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_kernel(x_ptr, out_ptr, n, one, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    factor = 2.0
    if one.type == tl.int32:
        factor = 1.0
    tl.store(out_ptr + at, x * tl.sigmoid(x) * factor, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        silu_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), 1, BLOCK=256)
        return out
