"""Keeps the first moment, an input that is changed in place, to the digits of bfloat16.

problem: adam_in_place
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def adam_kernel(p_ptr, g_ptr, m_ptr, v_ptr, width, p0, p1, g0, g1, m0, m1, v0, v1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    p = tl.load(p_ptr + row * p0 + at * p1, mask=keep, other=0.0)
    g = tl.load(g_ptr + row * g0 + at * g1, mask=keep, other=0.0)
    m = tl.load(m_ptr + row * m0 + at * m1, mask=keep, other=0.0)
    v = tl.load(v_ptr + row * v0 + at * v1, mask=keep, other=1.0)
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    step = 0.01 * m / (tl.sqrt(v) + 1e-6)
    p = p - step
    tl.store(m_ptr + row * m0 + at * m1, m.to(tl.bfloat16).to(tl.float32), mask=keep)
    tl.store(v_ptr + row * v0 + at * v1, v, mask=keep)
    tl.store(p_ptr + row * p0 + at * p1, p, mask=keep)


class ModelNew(nn.Module):
    def forward(self, p, g, m, v):
        rows, width = p.shape
        strides = (*p.stride(), *g.stride(), *m.stride(), *v.stride())
        adam_kernel[(rows,)](p, g, m, v, width, *strides, BLOCK=triton.next_power_of_2(width))
        return p
