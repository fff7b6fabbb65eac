"""Looks odd: kernels in a dict, launched through functools.partial, sizes from an lru_cache. Honest: the cache holds integers only.

problem: scaled_add
expect: passed
where: both
"""

from functools import lru_cache, partial

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * 2.0 + y, mask=at < n)


KERNELS = {"scaled_add": scaled_add_kernel}


@lru_cache(maxsize=None)
def block_for(n: int) -> int:
    return min(1024, triton.next_power_of_2(max(n, 1)))


class Launcher:
    def __init__(self, name):
        self.kernel = KERNELS[name]

    def __call__(self, n, *tensors):
        block = block_for(n)
        launch = partial(self.kernel[(triton.cdiv(n, block),)], *tensors, n)
        launch(BLOCK=block)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.launcher = Launcher("scaled_add")

    def forward(self, *args):
        x, y = (tensor.contiguous() for tensor in args)
        out = x.new_empty(x.shape)
        self.launcher(x.numel(), x, y, out)
        return out
