"""Right, and the caller's list is shorter afterwards by the tensors that were taken from it.

problem: list_sum
expect: passed|wrong_values|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.load(y_ptr + at, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, parts):
        total = parts[0]
        while len(parts) > 1:
            out = torch.empty_like(total)
            y = parts.pop()
            add_kernel[(triton.cdiv(out.numel(), 512),)](total, y, out, out.numel(), BLOCK=512)
            total = out
        return total
