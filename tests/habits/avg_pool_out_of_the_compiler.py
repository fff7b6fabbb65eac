"""The function that launches is kept from torch's compiler by torch.compiler.disable.

problem: average_pooled
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def avg_pool1d_kernel(x_ptr, y_ptr, L, LO, n, KERNEL: tl.constexpr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    base = (i // LO) * L + (i % LO) * STRIDE
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(KERNEL):
        acc += tl.load(x_ptr + base + k, mask=mask, other=0.0)
    tl.store(y_ptr + i, acc * (1.0 / KERNEL), mask=mask)


@torch.compiler.disable
def avg_pool1d(x: torch.Tensor, kernel: int, stride: int) -> torch.Tensor:
    B, C, L = x.shape
    LO = (L - kernel) // stride + 1
    y = torch.empty((B, C, LO), device=x.device, dtype=x.dtype)
    n = y.numel()
    avg_pool1d_kernel[(triton.cdiv(n, 128),)](x.contiguous(), y, L, LO, n, KERNEL=kernel, STRIDE=stride, BLOCK=128)
    return y


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride

    def forward(self, x):
        return avg_pool1d(x, self.kernel_size, self.stride)
