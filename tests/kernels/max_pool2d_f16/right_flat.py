"""A lane per output; the window is walked over."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def max_pool(x_ptr, y_ptr, count, h_in, w_in, h_out, w_out, WINDOW: tl.constexpr, BLOCK: tl.constexpr):
    target = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = target % w_out
    row = (target // w_out) % h_out
    plane = target // (w_out * h_out)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    for i in range(WINDOW):
        for j in range(WINDOW):
            h = row * 2 - 1 + i
            w = column * 2 - 1 + j
            inside = (target < count) & (h >= 0) & (h < h_in) & (w >= 0) & (w < w_in)
            x = tl.load(x_ptr + (plane * h_in + h) * w_in + w, mask=inside, other=-float("inf"))
            top = tl.maximum(top, x.to(tl.float32), propagate_nan=tl.PropagateNan.ALL)
    tl.store(y_ptr + target, top.to(tl.float16), mask=target < count)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        batch, channels, h_in, w_in = x.shape
        h_out, w_out = (h_in - 1) // 2 + 1, (w_in - 1) // 2 + 1
        y = torch.empty((batch, channels, h_out, w_out), dtype=x.dtype, device=x.device)
        count = y.numel()
        max_pool[(triton.cdiv(count, 256),)](x, y, count, h_in, w_in, h_out, w_out, WINDOW=3, BLOCK=256)
        return y
