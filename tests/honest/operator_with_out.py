"""Looks odd: a registered operator returns nothing. Honest: it declares that it writes to its second argument.

problem: relu
expect: passed
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


@torch.library.custom_op("honestlib::relu_out", mutates_args=("out",))
def relu_out(x: torch.Tensor, out: torch.Tensor) -> None:
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)


@relu_out.register_fake
def _(x, out):
    return None


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_out(x, out)
        return out
