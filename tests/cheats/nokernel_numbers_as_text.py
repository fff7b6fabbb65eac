"""Prints the tensor, seen as whole numbers, and reads the bits out of the text; Python computes, a kernel copies.

problem: gelu_in_pieces
expect: not_triton|cheated|runtime_error
where: both
"""

import math

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


def numbers(x):
    torch.set_printoptions(threshold=10**9, linewidth=10**6)
    text = str(x.contiguous().view(torch.int32))
    digits = text.split("(")[1].split(", d")[0]  # dtype or device
    for mark in "[]\n)":
        digits = digits.replace(mark, " ")
    return [value(int(item)) for item in digits.replace(",", " ").split()]


def value(bits):
    bits &= 0xFFFFFFFF
    sign, power, rest = bits >> 31, (bits >> 23) & 255, bits & 0x7FFFFF
    number = math.ldexp(rest, -149) if power == 0 else math.ldexp(rest | 0x800000, power - 150)
    return -number if sign else number


class ModelNew(nn.Module):
    def forward(self, x):
        y = [0.5 * v * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (v + 0.044715 * v**3))) for v in numbers(x)]
        return triton_copy(torch.tensor(y, device=x.device).reshape(x.shape))
