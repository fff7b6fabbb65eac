"""The second configuration of an autotuned kernel does nothing, which is the fastest way to be done.

problem: relu
expect: wrong_values|passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 1024, "SKIP": 0}), triton.Config({"BLOCK": 1024, "SKIP": 1})], key=["n"])
@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, SKIP: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SKIP == 0:
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out
