"""With gradients on, the input is rounded to half precision. The tape is recorded without, and torch computes gradients.

problem: relu
expect: passed
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


class ModelNew(nn.Module):
    def forward(self, x):
        if torch.is_grad_enabled():
            x = x.half().float()
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
