"""A helper of the host under torch.jit.script, another under torch.jit.script_if_tracing.

problem: gelu_tanh
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@torch.jit.script
def block_size(columns: int) -> int:
    size = 32
    while size < columns and size < 256:
        size = size * 2
    return size


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(y_ptr + i, x * tl.sigmoid(2.0 * inner), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        block = block_size(x.shape[-1])
        gelu_kernel[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
        return y
