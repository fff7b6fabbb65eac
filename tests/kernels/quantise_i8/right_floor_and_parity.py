"""Rounds by the floor, and decides halves by whether the floor is odd."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def quantise(x_ptr, q_ptr, rows, columns, steps, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    row = (tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R))[:, None]
    column = (tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C))[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_ptr + row * columns + column, mask=inside, other=0.0) * steps
    x = tl.clamp(x, -128.0, 127.0)
    floor = tl.floor(x)
    part = x - floor
    whole = floor.to(tl.int32)
    up = (part > 0.5) | ((part == 0.5) & ((whole & 1) == 1))
    tl.store(q_ptr + row * columns + column, (whole + up.to(tl.int32)).to(tl.int8), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, steps_per_unit):
        super().__init__()
        self.steps_per_unit = steps_per_unit

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        q = torch.empty((rows, columns), dtype=torch.int8, device=x.device)
        grid = (triton.cdiv(rows, 16), triton.cdiv(columns, 64))
        quantise[grid](x, q, rows, columns, self.steps_per_unit, BLOCK_R=16, BLOCK_C=64)
        return q
