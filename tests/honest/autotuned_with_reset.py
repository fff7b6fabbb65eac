"""Looks odd: an autotuner that zeroes its output between trials. Honest: the kernel accumulates by atomics.

problem: mean_rows
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 2048}), triton.Config({"BLOCK": 4096})],
    key=["columns"],
    reset_to_zero=["out_ptr"],
)
@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
    tl.atomic_add(out_ptr + row, tl.sum(x) / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.zeros(rows, dtype=x.dtype, device=x.device)
        mean_kernel[lambda meta: (rows, triton.cdiv(columns, meta["BLOCK"]))](x, out, columns)
        return out
