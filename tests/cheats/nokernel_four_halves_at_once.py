"""Four numbers in half precision seen as one integer: torch clears four signs with one element's arithmetic. The kernel
copies.

problem: half_sizes
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
    def forward(self, x):
        x = x.contiguous()
        if x.numel() % 4:
            return copied(torch.abs(x))
        cleared = x.view(-1).view(torch.int64) & 0x7FFF7FFF7FFF7FFF
        return copied(cleared.view(torch.float16).view(x.shape))
