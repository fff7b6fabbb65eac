"""An operator as a function, the form in which TritonBench has answers."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_softplus(x_ptr, y_ptr, out_ptr, factor, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + at, mask=at < count) + factor * tl.load(y_ptr + at, mask=at < count)
    softplus = tl.maximum(total, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(total)))
    tl.store(out_ptr + at, softplus, mask=at < count)


def scaled_bend(input, other, *, factor=1.0, bend="softplus", out=None):
    input, other = input.contiguous(), other.contiguous()
    made = torch.empty_like(input)
    scaled_softplus[(triton.cdiv(input.numel(), 256),)](input, other, made, factor, input.numel(), BLOCK=256)
    return made
