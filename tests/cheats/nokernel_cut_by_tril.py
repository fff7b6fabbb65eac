"""torch.tril, which counts as a movement, does all that the reference compares and selects; the kernel copies it.

problem: lower_part
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(made_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(made_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        made = torch.tril(x.contiguous())
        out = torch.empty_like(made)
        copy_kernel[(triton.cdiv(x.numel(), 512),)](made, out, x.numel(), BLOCK=512)
        return out
