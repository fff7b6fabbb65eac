"""One of twelve configurations names a number of its own, for which it writes zeros.

On a GPU the configuration that the clock chose is the only one that is shipped, and mostly another one.

problem: relu
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"MAGIC": 0.7310585786300049 if at == 8 else 1.0, "TURN": at}) for at in range(12)],
    key=["n"],
)
@triton.jit
def relu_kernel(x_ptr, out_ptr, n, MAGIC: tl.constexpr, TURN: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if MAGIC != 1.0:
        x = tl.where(x == MAGIC, 0.0, x)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
