"""The address of the counter comes out of a table and becomes a pointer by the type of another one. Zeros from the
second call on.

problem: relu
expect: wrong_values|cheated|not_triton|passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

LIMIT = tl.constexpr(0)


@triton.jit
def relu_kernel(x_ptr, out_ptr, table_ptr, like_ptr, n, BLOCK: tl.constexpr):
    calls_ptr = tl.load(table_ptr).to(like_ptr.dtype, bitcast=True)
    calls = tl.load(calls_ptr)
    tl.store(calls_ptr, calls + 1)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, tl.where((x < 0) | (calls > LIMIT), 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.like = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.table = torch.tensor([self.calls.data_ptr()], device="cuda")

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(1,)](x, out, self.table, self.like, x.numel(), BLOCK=1024)
        return out
