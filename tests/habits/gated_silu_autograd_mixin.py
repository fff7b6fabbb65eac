"""An autograd.Function whose backward is a kernel, too, though nobody asks for it; launched through a static method.

problem: gated_silu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _fwd(x_ptr, y_ptr, H, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    gate = tl.load(x_ptr + row * 2 * H + i, mask=i < H, other=0.0)
    up = tl.load(x_ptr + row * 2 * H + H + i, mask=i < H, other=0.0)
    tl.store(y_ptr + row * H + i, gate * _sigmoid(gate) * up, mask=i < H)


@triton.jit
def _bwd(dy_ptr, x_ptr, dx_ptr, H, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + row * H + i, mask=i < H, other=0.0)
    gate = tl.load(x_ptr + row * 2 * H + i, mask=i < H, other=0.0)
    up = tl.load(x_ptr + row * 2 * H + H + i, mask=i < H, other=0.0)
    s = _sigmoid(gate)
    tl.store(dx_ptr + row * 2 * H + i, dy * up * (s + gate * s * (1 - s)), mask=i < H)
    tl.store(dx_ptr + row * 2 * H + H + i, dy * gate * s, mask=i < H)


class SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        H = x.shape[-1] // 2
        y = x.new_empty(*x.shape[:-1], H)
        _fwd[(y.numel() // H,)](x, y, H, BLOCK=triton.next_power_of_2(H))
        ctx.save_for_backward(x)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        H = dy.shape[-1]
        _bwd[(dy.numel() // H,)](dy.contiguous(), x, dx, H, BLOCK=triton.next_power_of_2(H))
        return dx


class ModelNew(nn.Module):
    def forward(self, x):
        return SwiGLU.apply(x)
