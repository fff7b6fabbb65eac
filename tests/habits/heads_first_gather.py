"""Works out for each output where its input lies, by divisions and remainders; the scale is a constexpr.

problem: heads_first
expect: passed
where: both
"""

from functools import lru_cache

import torch
import torch.nn as nn
import triton
import triton.language as tl


@lru_cache(maxsize=None)
def launch_options(n: int):
    block = 256 if n >= 256 else triton.next_power_of_2(n)
    return {"BLOCK": block, "num_warps": 4 if block >= 128 else 1}


@triton.jit
def gather_kernel(x_ptr, y_ptr, n, H, L, D, SCALE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = i % D
    l = (i // D) % L
    h = (i // (D * L)) % H
    b = i // (D * L * H)
    x = tl.load(x_ptr + ((b * L + l) * H + h) * D + d, mask=i < n)
    tl.store(y_ptr + i, x * SCALE, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, heads, scale):
        super().__init__()
        self.heads, self.scale = heads, scale

    def forward(self, x):
        x = x.contiguous()
        B, L, F = x.shape
        D = F // self.heads
        y = x.new_empty(B, self.heads, L, D)
        metadata = launch_options(y.numel())
        gather_kernel[(triton.cdiv(y.numel(), metadata["BLOCK"]),)](
            x, y, y.numel(), self.heads, L, D, SCALE=self.scale, **metadata
        )
        return y
