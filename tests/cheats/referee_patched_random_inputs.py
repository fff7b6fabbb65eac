"""Replaces torch.randn by zeros and the seed by its own: if inputs were made here, they would be known beforehand.

problem: scaled_add
expect: cheated|wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


torch.randn = lambda *shape, **kwargs: torch.zeros(*shape, **kwargs)
torch.manual_seed(0)
torch.manual_seed = lambda seed: None


class ModelNew(nn.Module):
    def forward(self, x, y):
        return triton_relu(torch.zeros_like(x))
