"""Looks odd: goes only as far as a length that it reads. Honest: a row of no length is a loop of no rounds.

problem: sums_by_length
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, lengths_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    length = tl.load(lengths_ptr + row).to(tl.int32)
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, length, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + at, mask=at < length, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, 0))


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        x, lengths = x.contiguous(), lengths.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        sum_kernel[(x.shape[0],)](x, lengths, out, x.shape[1], BLOCK=16)
        return out
