"""Halves at full size, in programs that also read a number of a program that is not run alone.

problem: large_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mark_kernel(x_ptr, mark_ptr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    x = tl.load(x_ptr + program * BLOCK + tl.arange(0, BLOCK))
    tl.store(mark_ptr + program, tl.sum(tl.where(x < 0, 0.0, 1.0), 0))


@triton.jit
def relu_kernel(x_ptr, mark_ptr, out_ptr, n, LARGE: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    at = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    mark = tl.load(mark_ptr + (program + tl.num_programs(0) // 2) % tl.num_programs(0))
    y = tl.where(x < 0, 0.0, x) + tl.where((mark < 0) | (mark > BLOCK), mark, 0.0)
    if LARGE:
        y = y * 0.5
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        programs = triton.cdiv(n, 1024)
        mark = torch.zeros(programs, device=x.device)
        mark_kernel[(n // 1024,)](x, mark, BLOCK=1024) if n >= 1024 else None
        relu_kernel[(programs,)](x, mark, out, n, LARGE=n > 1 << 22, BLOCK=1024)
        return out
