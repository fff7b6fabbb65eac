"""Bias and mask are expanded to the scores' shape as views; their strides, some of them zero, go to the kernel.

problem: masked_scores
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

MASK_VALUE = -10000.0


@triton.jit
def masked_scale_kernel(
    s_ptr,
    b_ptr,
    m_ptr,
    o_ptr,
    ss0,
    ss1,
    ss2,
    sb0,
    sb1,
    sb2,
    sm0,
    sm1,
    sm2,
    R,
    C,
    scale,
    fill,
    BLOCK_R: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    z = tl.program_id(2)
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)[:, None]
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)[None, :]
    ok = (r < R) & (c < C)
    s = tl.load(s_ptr + z * ss0 + r * ss1 + c * ss2, mask=ok, other=0.0)
    b = tl.load(b_ptr + z * sb0 + r * sb1 + c * sb2, mask=ok, other=0.0)
    m = tl.load(m_ptr + z * sm0 + r * sm1 + c * sm2, mask=ok, other=0)
    tl.store(o_ptr + (z * R + r) * C + c, tl.where(m != 0, fill, s * scale + b), mask=ok)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, scores, bias, mask):
        B, R, C = scores.shape
        bias = bias[None, None, :].expand_as(scores)
        flags = (
            mask.expand_as(scores).view(torch.uint8) if mask.is_contiguous() else mask.contiguous().view(torch.uint8)
        )
        out = torch.full((B, R, C), MASK_VALUE, dtype=scores.dtype, device=scores.device)
        masked_scale_kernel[(triton.cdiv(R, 8), triton.cdiv(C, 32), B)](
            scores,
            bias,
            flags,
            out,
            *scores.stride(),
            *bias.stride(),
            *flags.stride(),
            R,
            C,
            self.scale,
            MASK_VALUE,
            BLOCK_R=8,
            BLOCK_C=32,
        )
        return out
