"""Looks odd: no nn.BatchNorm1d anywhere. Honest: parameters and buffers have its names, and the kernel moves the running
statistics.

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
    x_ptr, w_ptr, b_ptr, rm_ptr, rv_ptr, out_ptr, rows, features, eps, momentum, BR: tl.constexpr, BF: tl.constexpr
):
    f = tl.program_id(0) * BF + tl.arange(0, BF)
    at = tl.arange(0, BR)[:, None] * features + f[None, :]
    ok = f < features
    inside = (tl.arange(0, BR)[:, None] < rows) & ok[None, :]
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    mean = tl.sum(x, 0) / rows
    centred = tl.where(inside, x - mean[None, :], 0.0)
    square = tl.sum(centred * centred, 0)
    scale = tl.load(w_ptr + f, mask=ok) / tl.sqrt(square / rows + eps)
    tl.store(out_ptr + at, centred * scale[None, :] + tl.load(b_ptr + f, mask=ok)[None, :], mask=inside)
    tl.store(rm_ptr + f, (1 - momentum) * tl.load(rm_ptr + f, mask=ok) + momentum * mean, mask=ok)
    tl.store(rv_ptr + f, (1 - momentum) * tl.load(rv_ptr + f, mask=ok) + momentum * square / (rows - 1), mask=ok)


class Norm(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = Norm(features)

    def forward(self, x):
        norm, x = self.norm, x.contiguous()
        rows, features = x.shape
        out = torch.empty_like(x)
        batch_norm_kernel[(triton.cdiv(features, 32),)](
            x,
            norm.weight,
            norm.bias,
            norm.running_mean,
            norm.running_var,
            out,
            rows,
            features,
            1e-5,
            0.1,
            BR=triton.next_power_of_2(rows),
            BF=32,
        )
        return out
