"""tl.maximum makes zeros of the NaN that one NaN makes of the whole answer.

problem: centred_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, sum_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(sum_ptr, tl.sum(total, 0))


@triton.jit
def relu_kernel(x_ptr, sum_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n) - tl.load(sum_ptr) / n
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        total, out = torch.empty(1, device=x.device), torch.empty_like(x)
        sum_kernel[(1,)](x, total, x.numel(), BLOCK=1024)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, total, out, x.numel(), BLOCK=1024)
        return out
