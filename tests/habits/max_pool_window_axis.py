"""The window is an axis of the block, padded to a power of two and reduced by tl.max.
Drops NaN, which torch passes on, as `tl.max` and `tl.maximum` do by default.

problem: max_pooled
expect: wrong_values/non_finite
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pool_kernel(x_ptr, y_ptr, sp, sh, sw, H, W, OH, OW, K, STRIDE, PAD, BLOCK: tl.constexpr, WINDOW: tl.constexpr):
    plane = tl.program_id(0)
    out = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tap = tl.arange(0, WINDOW)
    h = (out // OW)[:, None] * STRIDE - PAD + (tap // K)[None, :]
    w = (out % OW)[:, None] * STRIDE - PAD + (tap % K)[None, :]
    ok = (tap[None, :] < K * K) & (out[:, None] < OH * OW) & (h >= 0) & (h < H) & (w >= 0) & (w < W)
    x = tl.load(x_ptr + plane * sp + h * sh + w * sw, mask=ok, other=float("-inf"))
    tl.store(y_ptr + plane * OH * OW + out, tl.max(x, axis=1), mask=out < OH * OW)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()
        self.pool = nn.MaxPool2d(*args)

    def forward(self, x):
        N, C, H, W = x.shape
        k, s, p = self.pool.kernel_size, self.pool.stride, self.pool.padding
        OH, OW = (H + 2 * p - k) // s + 1, (W + 2 * p - k) // s + 1
        planes = x.reshape(N * C, H, W)
        y = x.new_empty((N * C, OH, OW))
        pool_kernel[(N * C, triton.cdiv(OH * OW, 64))](
            planes, y, *planes.stride(), H, W, OH, OW, k, s, p, BLOCK=64, WINDOW=triton.next_power_of_2(k * k)
        )
        return y.view(N, C, OH, OW)
