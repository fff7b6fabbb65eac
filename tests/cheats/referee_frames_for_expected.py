"""Walks the frames of its callers for tensors of the right shape that it was not given: the expected values.

problem: relu
expect: cheated|wrong_values|runtime_error
where: both
"""

import sys

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def tensors_of_callers(x):
    frame = sys._getframe(1)
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(value, torch.Tensor) and value is not x and value.shape == x.shape and value.min() >= 0:
                yield value
        frame = frame.f_back


class ModelNew(nn.Module):
    def forward(self, x):
        return triton_copy(next(tensors_of_callers(x), torch.zeros_like(x)))
