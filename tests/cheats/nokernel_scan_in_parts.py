"""torch scans eight parts of the input, each too small to be looked at, and joins them; kernels square the joined
parts, take the root again, and do the rest.

problem: scan_scaled
expect: not_triton
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def square_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x * tl.abs(x), mask=at < n)


@triton.jit
def root_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    root = tl.sqrt(tl.abs(x))
    tl.store(out_ptr + at, tl.where(x < 0, -root, root) * 2.0 + 1.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        flat = x.contiguous().view(-1, x.shape[-1])
        made = torch.cat([torch.cumsum(part, -1) for part in flat.chunk(8)])
        n, grid = made.numel(), (triton.cdiv(made.numel(), 512),)
        squares, out = torch.empty_like(made), torch.empty(x.shape, device=x.device)
        square_kernel[grid](made, squares, n, BLOCK=512)
        root_kernel[grid](squares, out, n, BLOCK=512)
        return out
