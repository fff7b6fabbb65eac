"""Device functions are reached through several names of the language's modules.

problem: gelu_tanh
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
import triton.language as core
import triton.language.extra.libdevice as ld
import triton.language.math as tlm


@triton.jit
def tanh(x):
    return 2.0 * core.sigmoid(2.0 * x) - 1.0


@triton.jit(noinline=False)
def cube(x):
    return ld.pow(x, 3) if USE_POW else x * x * x


USE_POW: tl.constexpr = tl.constexpr(False)
ROOT: core.constexpr = core.constexpr(0.7978845608028654)


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = core.program_id(0) * BLOCK + core.arange(0, BLOCK)
    x = core.load(x_ptr + i, mask=i < n, other=0.0)
    y = 0.5 * x * (1.0 + tanh(ROOT * tlm.fma(0.044715, cube(x), x)))
    core.store(y_ptr + i, y, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        gelu_kernel[triton.cdiv(x.numel(), 128),](x, y, x.numel(), BLOCK=128)
        return y
