"""Looks odd: torch pads what the kernel reads, and the answer holds its elements. Honest: the kernel compares and selects.

problem: relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, columns, wide, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * wide + at, mask=at < columns)
    tl.store(out_ptr + row * columns + at, tl.where(x < 0, 0.0, x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        padded = torch.nn.functional.pad(x, (0, -columns % 64))
        out = torch.empty(rows, columns, device=x.device)
        relu_kernel[(rows,)](padded, out, columns, padded.shape[1], BLOCK=triton.next_power_of_2(columns))
        return out
