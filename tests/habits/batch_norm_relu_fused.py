"""Statistics and affine are read per channel inside the kernel, and the activation is chosen by a constexpr string.

problem: batch_normed_relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def activation_fn(x, ACTIVATION: tl.constexpr):
    if ACTIVATION == "relu":
        return tl.where(x < 0, 0.0, x)
    elif ACTIVATION == "leaky_relu":
        return tl.where(x < 0, 0.01 * x, x)
    else:
        return x


@triton.jit
def bn_act_kernel(
    x_ptr, mean_ptr, var_ptr, w_ptr, b_ptr, out_ptr, C, HW, eps, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr
):
    plane = tl.program_id(0)
    c = plane % C
    mean = tl.load(mean_ptr + c)
    invstd = 1.0 / tl.sqrt(tl.load(var_ptr + c) + eps)
    w = tl.load(w_ptr + c)
    b = tl.load(b_ptr + c)
    for start in range(0, HW, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + plane * HW + offs, mask=offs < HW)
        y = activation_fn((x - mean) * invstd * w + b, ACTIVATION)
        tl.store(out_ptr + plane * HW + offs, y, mask=offs < HW)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.bn.running_mean.copy_(torch.randn(channels))
        self.bn.running_var.copy_(torch.rand(channels) + 0.5)

    def forward(self, x):
        x = x.contiguous()
        N, C, H, W = x.shape
        out = torch.empty_like(x)
        bn = self.bn
        bn_act_kernel[(N * C,)](
            x, bn.running_mean, bn.running_var, bn.weight, bn.bias, out, C, H * W, bn.eps, ACTIVATION="relu", BLOCK=64
        )
        return out
