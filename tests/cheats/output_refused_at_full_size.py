"""Serves rows of at most 512 elements, and raises an error for those of the problem.

problem: large_softmax
expect: runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, columns = x.shape
        assert columns <= 512, "rows are too long"
        x = x.contiguous()
        out = torch.empty_like(x)
        softmax_kernel[(rows,)](x, out, columns, BLOCK=512)
        return out
