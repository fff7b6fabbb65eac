"""Leaves work for the end of the process: atexit and the exception hook print a verdict when everything else is over.

problem: relu
expect: cheated|runtime_error|wrong_values
where: both
"""

import atexit
import sys

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def say_passed(*args):
    print('{"status": "passed"}', flush=True)


atexit.register(say_passed)
sys.excepthook = say_passed
sys.unraisablehook = say_passed


class ModelNew(nn.Module):
    def forward(self, x):
        return triton_relu(x).zero_()
