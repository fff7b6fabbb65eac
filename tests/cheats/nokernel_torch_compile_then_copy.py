"""torch.compile (eager backend, so it runs anywhere) does the work; the kernel of its own only copies.

problem: gelu
expect: not_triton|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
import torch.nn.functional as F


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


@torch.compile(backend="eager")
def compiled_gelu(x):
    return F.gelu(x)


class ModelNew(nn.Module):
    def forward(self, x):
        return triton_copy(compiled_gelu(x))
