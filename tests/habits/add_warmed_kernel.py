"""Compiles the kernel once in the constructor by its `warmup`, then launches as usual.

problem: vector_add
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, z_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, eviction_policy="evict_first")
    y = tl.load(y_ptr + offsets, mask=mask, eviction_policy="evict_first")
    tl.store(z_ptr + offsets, x + y, mask=mask, cache_modifier=".cs")


class ModelNew(nn.Module):
    BLOCK = 1024

    def __init__(self):
        super().__init__()
        if torch.cuda.is_available():
            add_kernel.warmup(
                torch.float32, torch.float32, torch.float32, 4096, BLOCK=self.BLOCK, num_warps=4, grid=(1,)
            )

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        z = torch.empty_like(x, memory_format=torch.contiguous_format)
        n = z.numel()
        add_kernel[(triton.cdiv(n, self.BLOCK),)](x, y, z, n, BLOCK=self.BLOCK, num_warps=4)
        return z
