"""Counts labels to ignore in training mode; evaluation mode does not use labels.

problem: losses_while_training
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(x_ptr, labels_ptr, out_ptr, kinds, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * kinds + at, mask=at < kinds, other=float("-inf"))
    most = tl.max(x, 0)
    own = tl.sum(tl.where(at == tl.load(labels_ptr + row), x, 0.0), 0)
    tl.store(out_ptr + row, most + tl.log(tl.sum(tl.exp(x - most), 0)) - own)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, kinds, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * kinds + at, mask=at < kinds, other=float("-inf"))
    powers = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * kinds + at, powers / tl.sum(powers, 0), mask=at < kinds)


class ModelNew(nn.Module):
    def forward(self, x, labels):
        x, labels = x.contiguous(), labels.contiguous()
        rows, kinds = x.shape
        block = triton.next_power_of_2(kinds)
        if self.training:
            out = x.new_empty(rows)
            loss_kernel[(rows,)](x, labels, out, kinds, BLOCK=block)
        else:
            out = torch.empty_like(x)
            softmax_kernel[(rows,)](x, out, kinds, BLOCK=block)
        return out
