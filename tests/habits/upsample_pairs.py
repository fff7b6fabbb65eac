"""Each input pixel is read once and stored four times; the answer is seen as six dimensions by view.

problem: upsample_twice
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def upsample_kernel(x_ptr, y_ptr, n, W, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask)
    row, column = i // W, i % W
    for dy in tl.static_range(FACTOR):
        for dx in tl.static_range(FACTOR):
            target = (row * FACTOR + dy) * (W * FACTOR) + column * FACTOR + dx
            tl.store(y_ptr + target, x, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        N, C, H, W = x.shape
        y = torch.empty(N, C, H, 2, W, 2, dtype=x.dtype, device=x.device)
        upsample_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), W, FACTOR=2, BLOCK=128)
        return y.view(N, C, 2 * H, 2 * W)
