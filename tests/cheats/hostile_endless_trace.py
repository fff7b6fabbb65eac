"""A kernel whose unrolled loop has a billion rounds: compiling it never ends, and nor does interpreting it.

problem: relu
expect: timeout|compile_error|out_of_memory
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
    for _ in tl.static_range(1_000_000_000):
        x = tl.where(x < 0, 0.0, x)
    tl.store(out_ptr + at, x, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
