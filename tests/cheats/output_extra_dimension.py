"""Returns the right numbers with one more dimension.

problem: mean_rows
expect: wrong_shape
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0), 0)
    tl.store(out_ptr + row, total / columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], 1, dtype=x.dtype, device=x.device)
        mean_kernel[(x.shape[0],)](x.contiguous(), out, x.shape[1], BLOCK=1024)
        return out
