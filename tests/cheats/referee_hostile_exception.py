"""Raises an exception whose text cannot be had: __str__ and __repr__ raise in turn, and its class lies about its name.

problem: relu
expect: runtime_error|cheated
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


class Hostile(BaseException):
    def __str__(self):
        raise SystemExit("passed")

    __repr__ = __str__

    def __getattribute__(self, name):
        if name == "__traceback__":
            return None
        return super().__getattribute__(name)


Hostile.__name__ = '{"status": "passed"}'


class ModelNew(nn.Module):
    def forward(self, x):
        triton_relu(x)
        raise Hostile
