"""Looks odd: never centres the input. Honest: statistics and affine part are folded into one scale and shift on each call.

problem: batch_norm_eval
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fold_kernel(mean_ptr, var_ptr, w_ptr, b_ptr, scale_ptr, shift_ptr, features, eps, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < features
    scale = tl.load(w_ptr + at, mask=inside) / tl.sqrt(tl.load(var_ptr + at, mask=inside, other=1.0) + eps)
    tl.store(scale_ptr + at, scale, mask=inside)
    tl.store(
        shift_ptr + at, tl.load(b_ptr + at, mask=inside) - tl.load(mean_ptr + at, mask=inside) * scale, mask=inside
    )


@triton.jit
def scale_shift_kernel(x_ptr, scale_ptr, shift_ptr, out_ptr, n, features, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    scale = tl.load(scale_ptr + at % features, mask=inside)
    shift = tl.load(shift_ptr + at % features, mask=inside)
    tl.store(out_ptr + at, x * scale + shift, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        norm, x = self.norm, x.contiguous()
        features = x.shape[1]
        scale, shift, out = x.new_empty(features), x.new_empty(features), torch.empty_like(x)
        block = triton.next_power_of_2(features)
        fold_kernel[(1,)](
            norm.running_mean, norm.running_var, norm.weight, norm.bias, scale, shift, features, norm.eps, BLOCK=block
        )
        scale_shift_kernel[(triton.cdiv(x.numel(), 1024),)](x, scale, shift, out, x.numel(), features, BLOCK=1024)
        return out
