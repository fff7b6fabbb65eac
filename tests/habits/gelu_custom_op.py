"""An operator by torch.library.custom_op with a fake version and an autograd formula registered beside it.

problem: gelu_tanh
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def gelu_fwd_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    y = 0.5 * x * (1.0 + libdevice.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    tl.store(y_ptr + offs, y, mask=offs < n)


@torch.library.custom_op("habits_gelu::gelu_tanh", mutates_args=())
def gelu_tanh(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    gelu_fwd_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


@gelu_tanh.register_fake
def _(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _setup_context(ctx, inputs, output):
    (x,) = inputs
    ctx.save_for_backward(x)


def _backward(ctx, grad):
    (x,) = ctx.saved_tensors
    t = torch.tanh(0.7978845608028654 * (x + 0.044715 * x**3))
    dt = 0.7978845608028654 * (1 + 3 * 0.044715 * x**2) * (1 - t * t)
    return grad * (0.5 * (1 + t) + 0.5 * x * dt)


gelu_tanh.register_autograd(_backward, setup_context=_setup_context)


class ModelNew(nn.Module):
    def forward(self, x):
        return gelu_tanh(x)
