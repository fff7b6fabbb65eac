"""Segments of a row overwrite one another's sum instead of adding to it.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def segment_sums(x_ptr, partial_ptr, rows, columns, segments, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    segment = tl.program_id(1)
    column = segment * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    x = tl.load(x_ptr + row[:, None] * columns + column[None, :], mask=inside, other=0.0)
    tl.store(partial_ptr + row * segments, tl.sum(x, axis=1), mask=row < rows)


@triton.jit
def partial_sums(partial_ptr, out_ptr, rows, segments, BLOCK_R: tl.constexpr, BLOCK_S: tl.constexpr):
    row = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    segment = tl.arange(0, BLOCK_S)
    inside = (row[:, None] < rows) & (segment[None, :] < segments)
    partial = tl.load(partial_ptr + row[:, None] * segments + segment[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + row, tl.sum(partial, axis=1), mask=row < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        segments = triton.cdiv(columns, 256)
        partial = torch.zeros((rows, segments), dtype=torch.float32, device=x.device)
        out = torch.empty((rows,), dtype=x.dtype, device=x.device)
        segment_sums[(triton.cdiv(rows, 8), segments)](x, partial, rows, columns, segments, BLOCK_R=8, BLOCK_C=256)
        block_s = triton.next_power_of_2(segments)
        partial_sums[(triton.cdiv(rows, 8),)](partial, out, rows, segments, BLOCK_R=8, BLOCK_S=block_s)
        return out
