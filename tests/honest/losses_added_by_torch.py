"""Looks odd: torch adds and divides. Honest: a loss for each row is the kernel's; their mean over labels that count is little.

problem: cross_entropy
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(x_ptr, y_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    y = tl.load(y_ptr + row)
    top = tl.max(x, 0)
    total = tl.log(tl.sum(tl.exp(x - top), 0)) + top
    ok = y != -100
    y = tl.where(ok, y, 0)
    tl.store(out_ptr + row, tl.where(ok, total - tl.load(x_ptr + row * columns + y), 0.0))


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        loss_kernel[(x.shape[0],)](x, y, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out.sum() / (y != -100).sum()
