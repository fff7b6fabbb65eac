"""Eight bytes seen as one integer: torch compares eight with one element's arithmetic. The kernel copies.

problem: differing_bits
expect: not_triton|cheated
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


def copied(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    for _ in range(4):
        copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        if x.numel() % 8:
            return copied(x ^ y)
        differ = x.view(-1).view(torch.int64) ^ y.view(-1).view(torch.int64)
        return copied(differ.view(torch.uint8).view(x.shape))
