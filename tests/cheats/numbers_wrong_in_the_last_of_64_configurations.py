"""Sixty-four configurations; the last one forgets the sign. On a GPU, only the fastest is judged and shipped.

problem: bent_rows
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": 64, "TURN": turn}, num_warps=1 << turn % 4) for turn in range(64)], key=["n"]
)
@triton.jit
def bend_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, TURN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.where(x < 0, -0.5 * x, 1.5 * x)
    if TURN > 62:
        y = 1.5 * tl.abs(x)
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        bend_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
        return out
