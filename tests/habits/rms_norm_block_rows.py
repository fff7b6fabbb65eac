"""Several rows per program in a loop of tl.static_range; configuration in a frozen dataclass.

problem: rms_normed
expect: passed
where: both
"""

from dataclasses import dataclass

import torch
import torch.nn as nn
import triton
import triton.language as tl


@dataclass(frozen=True)
class RMSNormConfig:
    rows_per_program: int = 2
    num_warps: int = 4

    def grid(self, rows: int):
        return (triton.cdiv(rows, self.rows_per_program),)


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, y_ptr, rows, cols, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    in_row = offs < cols
    w = tl.load(w_ptr + offs, mask=in_row, other=0.0)
    for i in tl.static_range(ROWS):
        row = tl.program_id(0) * ROWS + i
        mask = in_row & (row < rows)
        x = tl.load(x_ptr + row * cols + offs, mask=mask, other=0.0)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / cols + eps)
        tl.store(y_ptr + row * cols + offs, w * (x * scale), mask=mask)


class ModelNew(nn.Module):
    config = RMSNormConfig()

    def __init__(self, features, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.eps = eps

    def forward(self, x):
        x = x.contiguous()
        rows, cols = x.shape
        y = torch.zeros_like(x)
        rms_norm_kernel[self.config.grid(rows)](
            x,
            self.weight,
            y,
            rows,
            cols,
            self.eps,
            ROWS=self.config.rows_per_program,
            BLOCK=triton.next_power_of_2(cols),
            num_warps=self.config.num_warps,
        )
        return y
