"""Adds the first element of each row, also where the length is zero.

problem: means_of_first
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, lengths_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    length = tl.load(lengths_ptr + row)
    x = tl.load(x_ptr + row * columns + at, mask=at < tl.maximum(length, 1), other=0.0)
    tl.store(out_ptr + row, tl.sum(x, 0) / tl.maximum(length, 1))


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        x, lengths = x.contiguous(), lengths.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        mean_kernel[(x.shape[0],)](x, lengths, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
