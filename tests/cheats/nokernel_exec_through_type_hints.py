"""No eval in sight: typing.get_type_hints evaluates a string annotation, with the real builtins, and so gets a
function that belongs to no file.

problem: softmax
expect: cheated|not_triton
where: both
"""

import typing

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


def bait(hidden: "lambda torch, x: torch.softmax(x, dim=-1)"): ...


HIDDEN = typing.get_type_hints(bait, globalns={"__name__": "elsewhere"})["hidden"]


class ModelNew(nn.Module):
    def forward(self, x):
        return triton_copy(HIDDEN(torch, x))
