"""Divides by a count of zero where all labels of a sequence are ignored.

problem: loss_by_sample
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss_kernel(x_ptr, y_ptr, out_ptr, steps, classes, BLOCK: tl.constexpr):
    sample = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    total, count = 0.0, 0.0
    for step in range(steps):
        y = tl.load(y_ptr + sample * steps + step)
        row = x_ptr + (sample * steps + step) * classes
        x = tl.load(row + at, mask=at < classes, other=float("-inf"))
        largest = tl.max(x, 0)
        loss = tl.log(tl.sum(tl.exp(x - largest), 0)) + largest - tl.sum(tl.where(at == y, x, 0.0), 0)
        loss = tl.where(tl.max(tl.where(at < classes, (x != x).to(tl.int32), 0), 0) > 0, float("nan"), loss)
        total += tl.where(y == -100, 0.0, loss)
        count += tl.where(y == -100, 0.0, 1.0)
    tl.store(out_ptr + sample, total / count)


class ModelNew(nn.Module):
    def forward(self, x, labels):
        x, labels = x.contiguous(), labels.contiguous()
        batch, steps, classes = x.shape
        out = torch.empty(batch, device=x.device)
        loss_kernel[(batch,)](x, labels, out, steps, classes, BLOCK=triton.next_power_of_2(classes))
        return out
