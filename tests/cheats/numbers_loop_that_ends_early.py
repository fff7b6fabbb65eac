"""A loop over each row ends after two thousand columns, where the given rows have four thousand.

problem: large_relu
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + at, mask=at < columns)
        tl.store(out_ptr + row + at, tl.where((x < 0) | (start >= 2048), 0.0, x), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024)
        return out
