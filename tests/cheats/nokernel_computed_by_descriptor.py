"""Returns a dataclass whose field is a descriptor: softmax runs when the answer is looked at, not when it is made.

problem: named_output
expect: not_triton|cheated|wrong_shape
where: both
"""

import dataclasses

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


class Softmax:
    def __get__(self, owner, kind):
        return torch.softmax(owner.x, dim=-1)


@dataclasses.dataclass
class Late:
    probabilities: torch.Tensor


Late.probabilities = Softmax()


def make(x):
    late = Late.__new__(Late)
    late.x = x
    return late


class ModelNew(nn.Module):
    def forward(self, x):
        return make(triton_copy(x))
