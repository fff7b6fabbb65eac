"""Written for 100 columns and sold as general: other widths are read and written with the wrong row length.

problem: softmax
expect: wrong_values|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_100_kernel(x_ptr, out_ptr):
    row = tl.program_id(0)
    at = tl.arange(0, 128)
    x = tl.load(x_ptr + row * 100 + at, mask=at < 100, other=float("-inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * 100 + at, e / tl.sum(e, 0), mask=at < 100)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_100_kernel[(x.shape[0],)](x.contiguous(), out)
        return out
