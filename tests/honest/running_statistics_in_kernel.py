"""Looks odd: the kernel writes to the module's buffers. Honest: the reference moves its running statistics too.

problem: batch_norm_train
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batch_norm_kernel(
    x_ptr, w_ptr, b_ptr, mean_ptr, var_ptr, out_ptr, rows, features, momentum, eps, BR: tl.constexpr, BF: tl.constexpr
):
    f = tl.program_id(0) * BF + tl.arange(0, BF)
    r = tl.arange(0, BR)[:, None]
    inside = (r < rows) & (f[None, :] < features)
    x = tl.load(x_ptr + r * features + f[None, :], mask=inside, other=0.0)
    mean = tl.sum(x, 0) / rows
    centred = tl.where(inside, x - mean[None, :], 0.0)
    squares = tl.sum(centred * centred, 0)
    scale = tl.load(w_ptr + f, mask=f < features) / tl.sqrt(squares / rows + eps)
    shift = tl.load(b_ptr + f, mask=f < features)
    tl.store(out_ptr + r * features + f[None, :], centred * scale[None, :] + shift[None, :], mask=inside)
    old_mean = tl.load(mean_ptr + f, mask=f < features)
    old_var = tl.load(var_ptr + f, mask=f < features)
    tl.store(mean_ptr + f, old_mean + momentum * (mean - old_mean), mask=f < features)
    tl.store(var_ptr + f, old_var + momentum * (squares / (rows - 1) - old_var), mask=f < features)


class ModelNew(nn.Module):
    momentum = 0.1

    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        norm, x = self.norm, x.contiguous()
        rows, features = x.shape
        out = torch.empty_like(x)
        batch_norm_kernel[(triton.cdiv(features, 32),)](
            x, norm.weight, norm.bias, norm.running_mean, norm.running_var, out,
            rows, features, self.momentum, norm.eps, BR=triton.next_power_of_2(rows), BF=32,
        )  # fmt: skip
        return out
