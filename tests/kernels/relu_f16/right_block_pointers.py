"""The flattened tensor through block pointers, which check the boundary themselves.

needs: triton.language.make_block_ptr
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    source = tl.make_block_ptr(x_ptr, (count,), (1,), (start,), (BLOCK,), (0,))
    target = tl.make_block_ptr(y_ptr, (count,), (1,), (start,), (BLOCK,), (0,))
    x = tl.load(source, boundary_check=(0,), padding_option="zero")
    tl.store(target, tl.where(x < 0, 0.0, x).to(x.dtype), boundary_check=(0,))


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        relu[(triton.cdiv(x.numel(), 512),)](x, y, x.numel(), BLOCK=512)
        return y
