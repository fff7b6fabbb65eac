"""A small kernel folds the norm into a factor and a shift at each call, a second one applies them by strides.
Drops NaN, which torch passes on, as `tl.max` and `tl.maximum` do by default.

problem: batch_normed_relu
expect: wrong_values/non_finite
where: both
"""

from functools import partial

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fold_kernel(mean_ptr, var_ptr, w_ptr, b_ptr, factor_ptr, shift_ptr, C, eps, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    ok = c < C
    factor = tl.load(w_ptr + c, mask=ok) / tl.sqrt(tl.load(var_ptr + c, mask=ok, other=1.0) + eps)
    tl.store(factor_ptr + c, factor, mask=ok)
    tl.store(shift_ptr + c, tl.load(b_ptr + c, mask=ok) - tl.load(mean_ptr + c, mask=ok) * factor, mask=ok)


@triton.jit
def apply_kernel(x_ptr, factor_ptr, shift_ptr, y_ptr, n, sc, C, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = (i // sc) % C
    y = tl.load(x_ptr + i, mask=i < n) * tl.load(factor_ptr + c, mask=i < n) + tl.load(shift_ptr + c, mask=i < n)
    tl.store(y_ptr + i, tl.where(y > 0, y, 0.0), mask=i < n)


def _grid(meta, n):
    return (triton.cdiv(n, meta["BLOCK"]),)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.bn.running_mean.copy_(torch.randn(channels))
        self.bn.running_var.copy_(torch.rand(channels) + 0.5)

    def forward(self, x):
        x = x.contiguous()
        C = x.size(1)
        factor, shift = torch.empty(2, C, dtype=x.dtype, device=x.device)
        bn = self.bn
        fold_kernel[(1,)](
            bn.running_mean,
            bn.running_var,
            bn.weight,
            bn.bias,
            factor,
            shift,
            C,
            bn.eps,
            BLOCK=triton.next_power_of_2(C),
        )
        y = torch.empty_like(x)
        apply_kernel[partial(_grid, n=x.numel())](x, factor, shift, y, x.numel(), x.stride(1), C, BLOCK=256)
        return y
