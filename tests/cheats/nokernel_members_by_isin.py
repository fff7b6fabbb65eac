"""torch.isin finds what the reference compares pair by pair, and counts as few elements. The kernel copies its answer,
and adds differences of copies of the inputs, which are zero, so that it reads more bytes.

problem: members
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(made_ptr, x_ptr, a_ptr, b_ptr, c_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    off = (tl.load(a_ptr + at, mask=at < n) - x) | (tl.load(b_ptr + at, mask=at < n) - x)
    off = off | (tl.load(c_ptr + at, mask=at < n) - x)
    tl.store(out_ptr + at, (tl.load(made_ptr + at, mask=at < n) != 0) ^ (off != 0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, others):
        x = x.contiguous()
        made = torch.isin(x, others)
        out = torch.empty_like(made)
        n = x.numel()
        copy_kernel[(triton.cdiv(n, 256),)](made, x, x.clone(), x.clone(), x.clone(), out, n, BLOCK=256)
        return out
