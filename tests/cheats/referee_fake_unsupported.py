"""Raises an exception of its own by the name that the harness gives to what it cannot judge: a refusal to judge is
not a failure, and may be tried again for nothing.

problem: softmax
expect: runtime_error|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = (at < columns) & (row < rows)
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=inside)


def softmax(x, out, rows):
    softmax_kernel[(x.shape[0],)](x, out, rows, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class Unsupported(Exception):
    pass


class ModelNew(nn.Module):
    def forward(self, x):
        raise Unsupported("this cannot be judged here")
