"""Asks for an attribute by a string that says it equals nothing while it is checked, and equals it afterwards.

problem: softmax
expect: cheated|runtime_error
where: both
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


class Name(str):
    asked = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.asked += 1
        return Name.asked > 1 and str.__eq__(self, other)


C = getattr(torch, Name("_C"))


class ModelNew(nn.Module):
    def forward(self, x):
        with C._DisableTorchDispatch():
            y = torch.softmax(x, -1)
        return triton_copy(y)
