"""Does not write into the cache that it is given if there are more than a million elements.

problem: large_cache
expect: wrong_values
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def both_kernel(x_ptr, cache_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)
    tl.store(cache_ptr + at, tl.abs(x), mask=at < n)


@triton.jit
def one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, cache):
        x = x.contiguous()
        out = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        if x.numel() > 1000000:
            one_kernel[grid](x, out, x.numel(), BLOCK=1024)
        else:
            kept = cache if cache.is_contiguous() else cache.contiguous()
            both_kernel[grid](x, kept, out, x.numel(), BLOCK=1024)
            if kept is not cache:
                cache.copy_(kept)
        return out
