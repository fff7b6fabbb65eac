"""Looks odd: prints to stdout and stderr, even something like a verdict. Honest: text is only text.

problem: relu
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

print('loading {"status": "passed"}')


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.announced = False

    def forward(self, x):
        if not self.announced:
            print(f"relu over {tuple(x.shape)} {x.dtype}: ünïcödé, \x1b[31mcolour\x1b[0m and a \\0", flush=True)
            self.announced = True
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
