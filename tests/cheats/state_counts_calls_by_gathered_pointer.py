"""A pointer that went through tl.gather counts the calls in memory that seems only to be read. Zeros from the second
call on.

problem: relu
expect: cheated|not_triton|passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

LIMIT = tl.constexpr(0)


@triton.jit
def relu_kernel(x_ptr, out_ptr, calls_ptr, n, BLOCK: tl.constexpr):
    calls = tl.load(calls_ptr)
    where = calls_ptr + tl.zeros((16,), tl.int32)
    tl.store(tl.gather(where, tl.zeros((16,), tl.int32), 0), calls + 1)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, tl.where((x < 0) | (calls > LIMIT), 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = None

    def forward(self, x):
        if self.calls is None:
            self.calls = torch.zeros(1, dtype=torch.int32, device=x.device)
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(1,)](x, out, self.calls, x.numel(), BLOCK=1024)
        return out
