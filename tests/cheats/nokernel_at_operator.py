"""Multiplies by `@`, a call that carries no name to search for; the kernel adds zero to a scrap of memory.

problem: matmul_fp16
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def touch_kernel(scrap_ptr):
    tl.store(scrap_ptr, tl.load(scrap_ptr) + 0.0)


class ModelNew(nn.Module):
    def forward(self, a, b):
        touch_kernel[(1,)](torch.zeros(1, device=a.device))
        return a @ b
