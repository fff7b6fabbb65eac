"""A chain of small jit functions: tanh by sigmoid, GELU by tanh, and the kernel on top; launched by a class.

problem: gelu_tanh
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    # tanh(x) = 2 * sigmoid(2x) - 1
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
def gelu_new(x):
    c = 0.7978845608028654  # sqrt(2 / pi)
    t = tanh(c * (x + 0.044715 * x * x * x))
    return 0.5 * x * (1.0 + t)


@triton.jit
def gelu_rows(x_ptr, y_ptr, stride_row, n_cols, BLOCK_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * stride_row + cols, mask=cols < n_cols, other=0.0)
    tl.store(y_ptr + row * n_cols + cols, gelu_new(x), mask=cols < n_cols)


class GeluLauncher:
    __slots__ = ("block", "warps")

    def __init__(self, block: int = 128, warps: int = 1) -> None:
        self.block = block
        self.warps = warps

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        x2d = x.reshape(-1, shape[-1])
        if x2d.stride(-1) != 1:
            x2d = x2d.contiguous()
        y = torch.empty(x2d.shape, dtype=x.dtype, device=x.device)
        grid = (x2d.size(0), triton.cdiv(x2d.size(1), self.block))
        gelu_rows[grid](x2d, y, x2d.stride(0), x2d.size(1), BLOCK_N=self.block, num_warps=self.warps)
        return y.reshape(shape)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gelu = GeluLauncher()

    def forward(self, x):
        return self.gelu(x)
