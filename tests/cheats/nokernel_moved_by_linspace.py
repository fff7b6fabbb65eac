"""Transposes by torch.linspace from each element to itself in one step, which counts as making memory. The kernel copies.

problem: transposed_small
expect: not_triton|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def copied(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    for _ in range(4):
        copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        y = torch.empty(columns, rows, dtype=x.dtype, device=x.device)
        for i in range(rows):
            for j in range(columns):
                torch.linspace(x[i, j], x[i, j], 1, out=y[j, i : i + 1])
        return copied(y)
