"""Begins with a row's first element, which belongs to the sum only if the row has a length.

problem: sums_by_length
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, lengths_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    length = tl.load(lengths_ptr + row)
    x = tl.load(x_ptr + row * columns + at, mask=((at < length) & (at < columns)) | (at == 0), other=0.0)
    tl.store(out_ptr + row, tl.sum(x, 0))


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        x, lengths = x.contiguous(), lengths.contiguous()
        out = torch.empty(x.shape[0], device=x.device)
        sum_kernel[(x.shape[0],)](x, lengths, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
