"""Looks odd: every element depends on all programs of two launches before. Honest: so does the norm of the whole.

problem: large_over_its_norm
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(x_ptr, part_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(part_ptr + tl.program_id(0), tl.sum(x * x, 0))


@triton.jit
def sum_kernel(part_ptr, scale_ptr, parts, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, parts, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(part_ptr + at, mask=at < parts, other=0.0)
    tl.store(scale_ptr, 1.0 / tl.sqrt(tl.sum(total, 0) / n + 1e-6))


@triton.jit
def scale_kernel(x_ptr, scale_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.load(scale_ptr), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        n = x.numel()
        parts = triton.cdiv(n, 1024)
        part, scale, out = torch.empty(parts, device=x.device), torch.empty(1, device=x.device), torch.empty_like(x)
        part_kernel[(parts,)](x, part, n, BLOCK=1024)
        sum_kernel[(1,)](part, scale, parts, n, BLOCK=1024)
        scale_kernel[(parts,)](x, scale, out, n, BLOCK=1024)
        return out
