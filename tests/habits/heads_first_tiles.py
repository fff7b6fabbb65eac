"""Reads a permuted view by its strides and writes tiles in the order of the answer.

problem: heads_first
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def permute_scale_kernel(
    x_ptr, y_ptr, stride_b, stride_h, stride_l, stride_d, H, L, D, scale, BLOCK_L: tl.constexpr, BLOCK_D: tl.constexpr
):
    bh = tl.program_id(0)
    b = bh // H
    h = bh % H
    l = tl.program_id(1) * BLOCK_L + tl.arange(0, BLOCK_L)
    d = tl.arange(0, BLOCK_D)
    mask = (l[:, None] < L) & (d[None, :] < D)
    x = tl.load(x_ptr + b * stride_b + h * stride_h + l[:, None] * stride_l + d[None, :] * stride_d, mask=mask)
    tl.store(y_ptr + (bh * L + l[:, None]) * D + d[None, :], x * scale, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, heads, scale):
        super().__init__()
        self.heads = heads
        self.scale = scale

    def forward(self, x):
        batch, length, features = x.shape
        view = x.unflatten(-1, (self.heads, features // self.heads)).permute(0, 2, 1, 3)
        y = torch.empty(view.shape, dtype=x.dtype, device=x.device)
        D = view.shape[-1]
        permute_scale_kernel[(batch * self.heads, triton.cdiv(length, 8))](
            view, y, *view.stride(), self.heads, length, D, self.scale, BLOCK_L=8, BLOCK_D=triton.next_power_of_2(D)
        )
        return y
