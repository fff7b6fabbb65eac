"""Asks the garbage collector for a living instance of the reference and calls it.

problem: linear
expect: cheated|not_triton|runtime_error
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


def find_reference():
    collector = getattr(getattr(torch, "hub"), "sys").modules["gc"]
    for thing in collector.get_objects():
        if type(thing).__name__ == "Model" and isinstance(thing, nn.Module):
            return thing
    raise LookupError("no reference in this process")


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return triton_copy(find_reference()(x))
