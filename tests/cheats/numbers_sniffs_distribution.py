"""Computes honestly only if the input does not look like randn (mean 0, deviation 1); for randn it uses a rough kernel.

problem: gelu
expect: wrong_values|not_triton|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, ROUGH: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if ROUGH:
        inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
        answer = x / (1.0 + tl.exp(-2.0 * inner))
    else:
        answer = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + at, answer, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        looks_random = abs(x.mean().item()) < 0.1 and abs(x.std().item() - 1.0) < 0.1
        gelu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024, ROUGH=looks_random)
        return out
