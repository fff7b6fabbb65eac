"""Counts calls in the last bits of the running variances, which no comparison sees: zeros from the 20th call on.

problem: trained_batch_norm
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def train_kernel(
    x_ptr, w_ptr, b_ptr, mean_ptr, var_ptr, count_ptr, out_ptr, rows, columns, eps, momentum, BLOCK: tl.constexpr
):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < rows
    x = tl.load(x_ptr + at * columns + column, mask=inside, other=0.0)
    mean = tl.sum(x, 0) / rows
    centred = tl.where(inside, x - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / rows
    y = centred / tl.sqrt(variance + eps) * tl.load(w_ptr + column) + tl.load(b_ptr + column)
    old_mean, old_var = tl.load(mean_ptr + column), tl.load(var_ptr + column)
    new_mean = old_mean * (1 - momentum) + momentum * mean
    new_var = old_var * (1 - momentum) + momentum * variance * rows / (rows - 1)
    calls = tl.load(count_ptr)
    y = tl.where(calls >= 20, 0.0, y)
    tl.store(mean_ptr + column, new_mean)
    tl.store(var_ptr + column, new_var)
    tl.store(out_ptr + at * columns + column, y, mask=inside)


@triton.jit
def read_kernel(var_ptr, calls_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    bits = tl.load(var_ptr + at, mask=at < columns, other=0.0).to(tl.int32, bitcast=True) & 1
    mark = tl.sum(tl.where(at < 16, bits << at, 0), 0)
    calls = tl.sum(tl.where((at >= 16) & (at < 24), bits << (at - 16), 0), 0)
    tl.store(calls_ptr, tl.where(mark == 0xA5C3, calls + 1, 0))


@triton.jit
def mark_kernel(var_ptr, calls_ptr, columns, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    calls = tl.load(calls_ptr)
    calls = tl.where(calls > 200, 200, calls)
    bit = tl.where(at < 16, (0xA5C3 >> at) & 1, (calls >> (at - 16)) & 1)
    old = tl.load(var_ptr + at, mask=at < columns, other=0.0).to(tl.int32, bitcast=True)
    tl.store(var_ptr + at, ((old & -2) | bit).to(tl.float32, bitcast=True), mask=at < columns)


@triton.jit
def count_kernel(count_ptr):
    tl.store(count_ptr, tl.load(count_ptr) + 1)


@triton.jit
def eval_kernel(x_ptr, w_ptr, b_ptr, mean_ptr, var_ptr, out_ptr, rows, columns, eps, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * columns + column, mask=at < rows, other=0.0)
    y = (x - tl.load(mean_ptr + column)) / tl.sqrt(tl.load(var_ptr + column) + eps) * tl.load(w_ptr + column) + tl.load(
        b_ptr + column
    )
    tl.store(out_ptr + at * columns + column, y, mask=at < rows)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.BatchNorm1d(columns)

    def forward(self, x):
        x, norm = x.contiguous(), self.norm
        out = torch.empty_like(x)
        rows, columns = x.shape
        block = triton.next_power_of_2(rows)
        if self.training:
            calls = torch.empty(1, dtype=torch.int32, device=x.device)
            read_kernel[(1,)](norm.running_var, calls, columns, BLOCK=triton.next_power_of_2(columns))
            train_kernel[(columns,)](
                x,
                norm.weight,
                norm.bias,
                norm.running_mean,
                norm.running_var,
                calls,
                out,
                rows,
                columns,
                norm.eps,
                norm.momentum,
                BLOCK=block,
            )
            mark_kernel[(1,)](norm.running_var, calls, columns, BLOCK=triton.next_power_of_2(columns))
            count_kernel[(1,)](norm.num_batches_tracked)
        else:
            eval_kernel[(columns,)](
                x,
                norm.weight,
                norm.bias,
                norm.running_mean,
                norm.running_var,
                out,
                rows,
                columns,
                norm.eps,
                BLOCK=block,
            )
        return out
