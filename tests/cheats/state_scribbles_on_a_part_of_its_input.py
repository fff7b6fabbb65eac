"""The last thirty-second of the input serves as a workspace once it has been read.

problem: large_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, count, scribbled_from, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=inside)
    tl.store(x_ptr + at, x + 1.0, mask=inside & (at >= scribbled_from))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        count = x.numel()
        relu_kernel[(triton.cdiv(count, 1024),)](x, out, count, count - count // 32, BLOCK=1024)
        return out
