"""Looks odd: the kernel is subscripted apart from its call, all arguments by name, options unpacked from a dict. Honest.

problem: scaled_add
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_add_kernel(x_ptr, y_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * scale + y, mask=at < n)


def make_grid(n):
    def grid(meta):
        blocks = triton.cdiv(n, meta["BLOCK"])
        return (triton.cdiv(blocks, 2), 2, 1)

    return grid


class ModelNew(nn.Module):
    options = {"num_warps": 4, "num_stages": 1}

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        launch = scaled_add_kernel[make_grid(n)]
        launch(out_ptr=out, y_ptr=y, x_ptr=x, n=n, scale=2.0, BLOCK=1024, **self.options)
        return out
