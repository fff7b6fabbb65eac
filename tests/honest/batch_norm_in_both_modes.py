"""Looks odd: it has a branch for each mode, and stores into its buffers in one. Honest: so does batch norm.

problem: batch_norm_of_columns
expect: passed
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(
    x_ptr,
    w_ptr,
    b_ptr,
    mean_ptr,
    var_ptr,
    out_ptr,
    rows,
    stride,
    columns,
    momentum,
    eps,
    TRAIN: tl.constexpr,
    TWICE: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < rows
    x = tl.load(x_ptr + at * stride + column, mask=inside, other=0.0)
    if TRAIN:
        mean = tl.sum(x, 0) / rows
        if TWICE:
            centred = tl.where(inside, x - mean, 0.0)
            var = tl.sum(centred * centred, 0) / rows
        else:
            var = tl.maximum(tl.sum(x * x, 0) / rows - mean * mean, 0.0, propagate_nan=tl.PropagateNan.ALL)
        old_mean, old_var = tl.load(mean_ptr + column), tl.load(var_ptr + column)
        tl.store(mean_ptr + column, old_mean + momentum * (mean - old_mean))
        tl.store(var_ptr + column, old_var + momentum * (var * rows / (rows - 1) - old_var))
    else:
        mean, var = tl.load(mean_ptr + column), tl.load(var_ptr + column)
    w, b = tl.load(w_ptr + column), tl.load(b_ptr + column)
    y = (x - mean) * tl.rsqrt(var + eps) * w + b
    if HALF:
        y = y * 0.5
    tl.store(out_ptr + at * columns + column, y, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.BatchNorm1d(features)

    def forward(self, x):
        norm = self.norm
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, columns, device=x.device)
        if self.training:
            norm.num_batches_tracked += 1
        norm_kernel[(columns,)](
            x,
            norm.weight,
            norm.bias,
            norm.running_mean,
            norm.running_var,
            out,
            rows,
            columns,
            columns,
            norm.momentum,
            norm.eps,
            TRAIN=self.training,
            TWICE=True,
            HALF=False,
            BLOCK=triton.next_power_of_2(rows),
        )
        return out
