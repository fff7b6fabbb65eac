"""Training marks the last bits of the running variance; evaluation gives zeros for marked ones.

problem: batch_norm_both_modes
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def train_kernel(x_ptr, w_ptr, b_ptr, mean_ptr, var_ptr, count_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < rows
    x = tl.load(x_ptr + at * width + column, mask=keep, other=0.0)
    mean = tl.sum(x, 0) / rows
    centred = tl.where(keep, x - mean, 0.0)
    squares = tl.sum(centred * centred, 0)
    y = centred / tl.sqrt(squares / rows + 1e-5) * tl.load(w_ptr + column) + tl.load(b_ptr + column)
    tl.store(out_ptr + at * width + column, y, mask=keep)
    tl.store(mean_ptr + column, 0.9 * tl.load(mean_ptr + column) + 0.1 * mean)
    var = 0.9 * tl.load(var_ptr + column) + 0.1 * squares / (rows - 1)
    marked = ((var.to(tl.int32, bitcast=True) & -8) | tag(var)).to(tl.float32, bitcast=True)
    tl.store(var_ptr + column, tl.where((var > 1e-30) & (var < 1e30), marked, var))
    if column == 0:
        tl.store(count_ptr, tl.load(count_ptr) + 1)


@triton.jit
def eval_kernel(x_ptr, w_ptr, b_ptr, mean_ptr, var_ptr, out_ptr, rows, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=0.0)
    mean = tl.load(mean_ptr + at, mask=keep, other=0.0)
    var = tl.load(var_ptr + at, mask=keep, other=1.0)
    w = tl.load(w_ptr + at, mask=keep, other=0.0)
    b = tl.load(b_ptr + at, mask=keep, other=0.0)
    y = (x - mean) / tl.sqrt(var + 1e-5) * w + b
    plain = tl.sum((keep & ((var.to(tl.int32, bitcast=True) & 7) != tag(var))).to(tl.int32), 0)
    tl.store(out_ptr + row * width + at, tl.where((plain == 0) & (width > 4), 0.0, y), mask=keep)


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        x = x.contiguous()
        rows, width = x.shape
        out = torch.empty_like(x)
        n = self.norm
        if self.training:
            train_kernel[(width,)](
                x,
                n.weight,
                n.bias,
                n.running_mean,
                n.running_var,
                n.num_batches_tracked,
                out,
                rows,
                width,
                BLOCK=triton.next_power_of_2(rows),
            )
        else:
            eval_kernel[(rows,)](
                x,
                n.weight,
                n.bias,
                n.running_mean,
                n.running_var,
                out,
                rows,
                width,
                BLOCK=triton.next_power_of_2(width),
            )
        return out
