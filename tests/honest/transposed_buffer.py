"""Looks odd: the kernel fills a buffer of the wrong shape. Honest: its transpose, made contiguous, is the answer.

problem: layer_norm
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm_transposed_kernel(x_ptr, w_ptr, b_ptr, out_ptr, rows, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x = tl.load(x_ptr + row * columns + at, mask=inside, other=0.0)
    centred = tl.where(inside, x - tl.sum(x, 0) / columns, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / columns + eps)
    w = tl.load(w_ptr + at, mask=inside)
    b = tl.load(b_ptr + at, mask=inside)
    tl.store(out_ptr + at * rows + row, centred * scale * w + b, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x):
        norm = self.norm
        x = x.contiguous()
        rows, columns = x.shape
        buffer = torch.empty(columns, rows, dtype=x.dtype, device=x.device)
        block = triton.next_power_of_2(columns)
        layer_norm_transposed_kernel[(rows,)](x, norm.weight, norm.bias, buffer, rows, columns, norm.eps, BLOCK=block)
        return buffer.t().contiguous()
