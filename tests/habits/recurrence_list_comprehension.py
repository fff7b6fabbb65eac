"""Host code with comprehensions, match and zip; one launch a channel block on expanded strides.

problem: linear_recurrence
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def recurrence_kernel(a_ptr, b_ptr, y_ptr, T, C, BLOCK: tl.constexpr):
    batch, block = tl.program_id(0), tl.program_id(1)
    c = block * BLOCK + tl.arange(0, BLOCK)
    at = batch * T * C + c
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(T):
        a = tl.load(a_ptr + at, mask=c < C, other=0.0)
        b = tl.load(b_ptr + at, mask=c < C, other=0.0)
        state = tl.math.fma(a, state, b)
        tl.store(y_ptr + at, state, mask=c < C)
        at += C


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = (tensor.contiguous() for tensor in (a, b))
        match a.dim():
            case 3:
                batch, length, channels = a.shape
            case _:
                raise ValueError("expected three axes")
        y = torch.empty_like(b)
        sizes = {name: size for name, size in zip(("T", "C"), (length, channels), strict=True)}
        recurrence_kernel[(batch, triton.cdiv(channels, 8))](a, b, y, **sizes, BLOCK=8)
        return y
