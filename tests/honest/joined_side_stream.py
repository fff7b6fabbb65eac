"""Looks odd: works on a stream of its own. Honest: it waits for the caller's stream before and is waited for after.

problem: relu
expect: passed
where: gpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.side = None

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        if self.side is None:
            self.side = torch.cuda.Stream(device=x.device)
        caller = torch.cuda.current_stream(x.device)
        self.side.wait_stream(caller)
        with torch.cuda.stream(self.side):
            relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        caller.wait_stream(self.side)
        x.record_stream(self.side)
        out.record_stream(self.side)
        return out
