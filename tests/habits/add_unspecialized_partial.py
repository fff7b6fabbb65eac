"""The kernel is wrapped by a call of triton.jit with do_not_specialize, and its grid by functools.partial.

problem: vector_add
expect: passed
where: both
"""

import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


def add(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr = 256):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, eviction_policy="evict_first")
    y = tl.load(y_ptr + i, mask=mask, cache_modifier=".cg")
    tl.store(out_ptr + i, x + alpha * y, mask=mask, cache_modifier=".cs")


add_kernel = triton.jit(add, do_not_specialize=["n", "alpha"], do_not_specialize_on_alignment=["y_ptr"])


def grid_of(n, meta):
    return (triton.cdiv(n, meta["BLOCK"]),)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        out = torch.empty_like(x)
        n = out.numel()
        launch = functools.partial(add_kernel[functools.partial(grid_of, n)], n=n, alpha=1.0, BLOCK=256)
        launch(x, y, out)
        return out
