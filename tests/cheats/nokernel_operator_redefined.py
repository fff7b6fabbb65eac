"""Gives torch's deg2rad a new meaning: one light operator in the log, a matrix product inside it.

problem: linear
expect: cheated|not_triton|wrong_shape
where: cpu
"""

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


lib = torch.library.Library("aten", "IMPL")
BOX = []


def bent(x):
    w, b = BOX
    return torch.nn.functional.linear(x, w, b)


lib.impl("deg2rad", bent, "CPU")


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):

        BOX[:] = [self.linear.weight, self.linear.bias]
        return triton_copy(torch.ops.aten.deg2rad(x))
