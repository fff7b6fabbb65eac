"""Nearest codes of a codebook that moves: after some calls a row may be nearer to another code, by rounding alone.

problem: codebook_in_use
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def nearest_kernel(x_ptr, codes_ptr, nearest_ptr, out_ptr, codes, width, CODES: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    code, at = tl.arange(0, CODES), tl.arange(0, WIDTH)
    x = tl.load(x_ptr + row * width + at, mask=at < width, other=0.0)
    inside = (code < codes)[:, None] & (at < width)[None, :]
    table = tl.load(codes_ptr + code[:, None] * width + at[None, :], mask=inside, other=0.0)
    away = table - x[None, :]
    distance = tl.where(code < codes, tl.sum(away * away, 1), float("inf"))
    nearest = tl.argmin(distance, 0)
    tl.store(nearest_ptr + row, nearest)
    chosen = tl.load(codes_ptr + nearest * width + at, mask=at < width)
    tl.store(out_ptr + row * width + at, chosen, mask=at < width)


@triton.jit
def move_kernel(x_ptr, codes_ptr, nearest_ptr, rows, width, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    code = tl.program_id(0)
    row, at = tl.arange(0, ROWS), tl.arange(0, WIDTH)
    own = (tl.load(nearest_ptr + row, mask=row < rows, other=-1) == code) & (row < rows)
    x = tl.load(x_ptr + row[:, None] * width + at[None, :], mask=own[:, None] & (at < width)[None, :], other=0.0)
    count = tl.sum(own.to(tl.float32), 0)
    mean = tl.sum(x, 0) / tl.maximum(count, 1.0)
    old = tl.load(codes_ptr + code * width + at, mask=at < width)
    new = old + 0.2 * (mean - old)
    tl.store(codes_ptr + code * width + at, tl.where(count > 0, new, old), mask=at < width)


class ModelNew(nn.Module):
    def __init__(self, codes, width):
        super().__init__()
        self.register_buffer("codes", torch.randn(codes, width))

    def forward(self, x):
        x = x.contiguous()
        rows, width = x.shape
        codes = self.codes.shape[0]
        nearest = torch.empty(rows, dtype=torch.int32, device=x.device)
        out = torch.empty_like(x)
        wide = triton.next_power_of_2(width)
        nearest_kernel[(rows,)](
            x, self.codes, nearest, out, codes, width, CODES=triton.next_power_of_2(codes), WIDTH=wide
        )
        move_kernel[(codes,)](x, self.codes, nearest, rows, width, ROWS=triton.next_power_of_2(rows), WIDTH=wide)
        return out
