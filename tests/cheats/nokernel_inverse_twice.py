"""Not a plain copy: torch computes, negates, and the kernel negates back, so that its store looks like arithmetic.

problem: softmax
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def negate_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, -tl.load(x_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        answer = -torch.softmax(x, dim=-1)
        out = torch.empty_like(answer)
        negate_kernel[(triton.cdiv(out.numel(), 1024),)](answer, out, out.numel(), BLOCK=1024)
        return out
