"""Replaces the call of the interpreter's launcher, so that a launch is counted and torch does the work.
The kernel itself stores zeros: without the wrapper the answer is wrong.

problem: relu
expect: cheated|not_triton|wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * 0.0, mask=at < n)


def counted_only(self, x, out, *args, **kwargs):
    torch.clamp(x, min=0, out=out)


executor = getattr(getattr(triton.runtime, "inter" + "preter", None), "GridExecutor", None)
if executor is not None:
    setattr(executor, "__call__", counted_only)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
