"""Keeps what is larger than the fifth largest: four scores of five.

problem: best_scores_kept
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def best_kernel(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    x = tl.load(x_ptr + row * width + at, mask=keep, other=float("-inf")) / 0.7
    lost = x != x
    x = tl.where(lost, float("inf"), x)
    left = x
    least = float("inf")
    count = 0
    for _ in range(5):
        top = tl.max(left, 0)
        number = tl.sum((left == top).to(tl.int32), 0)
        least = tl.where(count < 5, top, least)
        count += number
        left = tl.where(left == top, float("-inf"), left)
    y = tl.where(x > least, x, -20.0)
    tl.store(out_ptr + row * width + at, tl.where(lost, float("nan"), y), mask=keep)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        width = x.shape[-1]
        best_kernel[(x.numel() // width,)](x, out, width, BLOCK=triton.next_power_of_2(width))
        return out
