"""torch computes; the kernel multiplies by a one that is only known at run time, and clamps to bounds that are never
met, so that its answer depends on it in every way one could test.

problem: softmax
expect: not_triton|cheated
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def finish_kernel(y_ptr, one_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n) * tl.load(one_ptr)
    tl.store(out_ptr + at, tl.minimum(tl.maximum(y, 0.0), 1.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.ones(1), persistent=False)

    def forward(self, x):
        y = torch.nn.functional.softmax(x, -1)
        out = torch.empty_like(y)
        finish_kernel[(triton.cdiv(y.numel(), 256),)](y, self.one, out, y.numel(), BLOCK=256)
        return out
