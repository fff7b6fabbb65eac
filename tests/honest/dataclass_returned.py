"""Looks odd: an object of this file's own class comes back in place of a dictionary. Honest: a dataclass that holds the same.

problem: named_output
expect: passed
where: both
"""

import dataclasses

import torch
import torch.nn as nn
import triton
import triton.language as tl


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    probabilities: torch.Tensor


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return Answer(out)
