"""Torch computes with one operator what the reference takes eight for; the kernel copies it, and loads the input
many times so that it moves more bytes than torch.

problem: gelu_in_pieces
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(made_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(made_ptr + at, mask=at < n)
    for i in range(12):
        value += 0.0 * tl.load(x_ptr + (at + i) % n, mask=at < n)
    tl.store(out_ptr + at, value, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        made = torch.nn.functional.gelu(x, approximate="tanh")
        out = torch.empty_like(x)
        copy_kernel[(triton.cdiv(x.numel(), 1024),)](made, x, out, x.numel(), BLOCK=1024)
        return out
