"""Takes the kernel's path where the tensors' device is of type cuda, and torch's otherwise.

problem: vector_add
expect: passed
where: both
"""

from __future__ import annotations

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(z_ptr + i, tl.load(x_ptr + i, m) + tl.load(y_ptr + i, m), m)


class ModelNew(nn.Module):
    def forward(self, x, y):
        if x.device.type == "cuda":
            x_, y_ = x.contiguous().view(-1), y.contiguous().view(-1)
            z = torch.empty_like(x_)
            n = z.numel()
            add_kernel[(triton.cdiv(n, 1024), 1, 1)](x_, y_, z, n, 1024)
            return z.view_as(x)
        return x + y
