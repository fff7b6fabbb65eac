"""Mean and variance by two loops, handed back in a dictionary whose tensors are rows of one allocation.

problem: row_moments
expect: passed
where: both
"""

from typing import Dict

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moments_kernel(x_ptr, mean_ptr, var_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_row = x_ptr + row * N
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x_row + c, mask=c < N, other=0.0)
    mean = tl.sum(total, 0) / N
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        centred = tl.load(x_row + c, mask=c < N, other=mean) - mean
        squares += centred * centred
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, tl.sum(squares, 0) / N)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:
        x = x.contiguous()
        rows, N = x.shape
        result = {name: torch.empty(rows, dtype=x.dtype, device=x.device) for name in ("mean", "var")}
        moments_kernel[(rows,)](x, result["mean"], result["var"], N, BLOCK=32)
        return result
