"""One copying kernel, launched once for each input with its place in the output."""

import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_into(x_ptr, out_ptr, count, x_size, out_size, first, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    x = tl.load(x_ptr + offsets, mask=inside)
    tl.store(out_ptr + (offsets // x_size) * out_size + first + offsets % x_size, x, mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        batch, _, width = a.shape
        out = a.new_empty((batch, a.shape[1] + b.shape[1], width))
        first = 0
        for x in (a.contiguous(), b.contiguous()):
            x_size = x.shape[1] * width
            copy_into[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), x_size, out.shape[1] * width, first, BLOCK=256)
            first += x_size
        return out
