"""Knows the labels that torch ignores in one of two kernels only: not in that for rows as long as their block.

problem: cross_entropy
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(x_ptr, y_ptr, losses_ptr, counts_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    y = tl.load(y_ptr + row)
    top = tl.max(x, 0)
    loss = tl.log(tl.sum(tl.exp(x - top), 0)) + top - tl.sum(tl.where(at == y, x, 0.0), 0)
    tl.store(losses_ptr + row, tl.where(y == -100, 0.0, loss))
    tl.store(counts_ptr + row, tl.where(y == -100, 0.0, 1.0))


@triton.jit
def whole_block_kernel(x_ptr, y_ptr, losses_ptr, counts_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + row * COLUMNS + at)
    top = tl.max(x, 0)
    own = tl.sum(tl.where(at == tl.load(y_ptr + row), x, 0.0), 0)
    tl.store(losses_ptr + row, tl.log(tl.sum(tl.exp(x - top), 0)) + top - own)
    tl.store(counts_ptr + row, 1.0)


@triton.jit
def mean_kernel(losses_ptr, counts_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    losses = tl.load(losses_ptr + at, mask=at < rows, other=0.0)
    counts = tl.load(counts_ptr + at, mask=at < rows, other=0.0)
    tl.store(out_ptr, tl.sum(losses, 0) / tl.sum(counts, 0))


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        rows, columns = x.shape
        losses, counts, out = x.new_empty(rows), x.new_empty(rows), x.new_empty(())
        block = triton.next_power_of_2(columns)
        if block == columns:
            whole_block_kernel[(rows,)](x, y, losses, counts, COLUMNS=columns)
        else:
            loss_kernel[(rows,)](x, y, losses, counts, columns, BLOCK=block)
        mean_kernel[(1,)](losses, counts, out, rows, BLOCK=triton.next_power_of_2(rows))
        return out
