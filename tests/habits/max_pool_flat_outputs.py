"""A lane per output, the window in nested loops, output sizes by the usual formula.
Drops NaN, which torch passes on, as `tl.max` and `tl.maximum` do by default.

problem: max_pooled
expect: wrong_values/non_finite
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl
import math


@triton.jit
def max_pool2d_kernel(
    x_ptr,
    out_ptr,
    n_out,
    H,
    W,
    OH,
    OW,
    KERNEL_SIZE: tl.constexpr,
    STRIDE: tl.constexpr,
    PADDING: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    idx = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = idx < n_out
    ow = idx % OW
    oh = (idx // OW) % OH
    plane = idx // (OW * OH)
    best = tl.full((BLOCK_SIZE,), -float("inf"), dtype=tl.float32)
    for kh in range(KERNEL_SIZE):
        for kw in range(KERNEL_SIZE):
            ih = oh * STRIDE - PADDING + kh
            iw = ow * STRIDE - PADDING + kw
            valid = mask & (ih >= 0) & (ih < H) & (iw >= 0) & (iw < W)
            best = tl.maximum(best, tl.load(x_ptr + plane * H * W + ih * W + iw, mask=valid, other=-float("inf")))
    tl.store(out_ptr + idx, best, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding

    def forward(self, x):
        x = x.contiguous()
        N, C, H, W = x.shape
        OH = math.floor((H + 2 * self.padding - self.kernel_size) / self.stride) + 1
        OW = math.floor((W + 2 * self.padding - self.kernel_size) / self.stride) + 1
        out = torch.empty((N, C, OH, OW), device=x.device, dtype=x.dtype)
        max_pool2d_kernel[(triton.cdiv(out.numel(), 128),)](
            x, out, out.numel(), H, W, OH, OW, self.kernel_size, self.stride, self.padding, BLOCK_SIZE=128
        )
        return out
