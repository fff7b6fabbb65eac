"""Takes every row for a full one where there is much to do.

problem: large_rows_of_lengths
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, length_ptr, out_ptr, columns, HAS_LENGTHS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    length = columns
    if HAS_LENGTHS:
        length = tl.load(length_ptr + row).to(tl.int32)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    y = tl.where(at < length, tl.where(x < 0, 0.0, x), 0.0)
    tl.store(out_ptr + row * columns + at, y, mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        x, lengths = x.contiguous(), lengths.contiguous()
        rows, columns = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        row_kernel[(rows,)](x, lengths, out, columns, HAS_LENGTHS=x.numel() < 1 << 20, BLOCK=block)
        return out
