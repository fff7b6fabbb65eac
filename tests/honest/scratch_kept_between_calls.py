"""Looks odd: keeps a buffer on the module from call to call. Honest: scratch only; each answer is a fresh tensor.

problem: softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def log_sum_exp_kernel(x_ptr, lse_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    largest = tl.max(x, 0)
    tl.store(lse_ptr + row * 2, largest)
    tl.store(lse_ptr + row * 2 + 1, tl.sum(tl.exp(x - largest), 0))


@triton.jit
def normalise_kernel(x_ptr, lse_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns)
    e = tl.exp(x - tl.load(lse_ptr + row * 2)) / tl.load(lse_ptr + row * 2 + 1)
    tl.store(out_ptr + row * columns + at, e, mask=at < columns)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self._scratch = None

    def forward(self, x):
        x = x.contiguous()
        rows, columns = x.shape
        if self._scratch is None or self._scratch.numel() < rows * 2 or self._scratch.device != x.device:
            self._scratch = torch.empty(rows * 2, dtype=torch.float32, device=x.device)
        out = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        log_sum_exp_kernel[(rows,)](x, self._scratch, columns, BLOCK=block)
        normalise_kernel[(rows,)](x, self._scratch, out, columns, BLOCK=block)
        return out
