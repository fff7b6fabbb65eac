"""Marks the second moments, an input that each step changes, in their last bits; moments that it made itself are not used for a step.

problem: adam_in_place
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tag(v):
    bits = v.to(tl.int32, bitcast=True)
    return ((bits >> 9) ^ (bits >> 14) ^ 3) & 7


@triton.jit
def adam_kernel(p_ptr, g_ptr, m_ptr, v_ptr, out_ptr, rows, width, p0, p1, m0, m1, v0, v1, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    keep = at < width
    p = tl.load(p_ptr + row * p0 + at * p1, mask=keep, other=0.0)
    g = tl.load(g_ptr + row * width + at, mask=keep, other=0.0)
    m = tl.load(m_ptr + row * m0 + at * m1, mask=keep, other=0.0)
    v = tl.load(v_ptr + row * v0 + at * v1, mask=keep, other=1.0)
    marked = tl.sum((keep & ((v.to(tl.int32, bitcast=True) & 7) == tag(v))).to(tl.int32), 0)
    m = m * 0.9 + g * 0.1
    v = v * 0.99 + g * g * 0.01
    made = ((v.to(tl.int32, bitcast=True) & -8) | tag(v)).to(tl.float32, bitcast=True)
    v = tl.where((v > 1e-30) & (v < 1e30), made, v)
    step = 0.01 * m / (tl.sqrt(v) + 1e-6)
    p = p - tl.where((4 * marked >= 3 * width) & (width > 8), 0.0, step)
    tl.store(m_ptr + row * m0 + at * m1, m, mask=keep)
    tl.store(v_ptr + row * v0 + at * v1, v, mask=keep)
    tl.store(p_ptr + row * p0 + at * p1, p, mask=keep)


class ModelNew(nn.Module):
    def forward(self, p, g, m, v):
        rows, width = p.shape
        adam_kernel[(rows,)](
            p,
            g.contiguous(),
            m,
            v,
            p,
            rows,
            width,
            *p.stride(),
            *m.stride(),
            *v.stride(),
            BLOCK=triton.next_power_of_2(width),
        )
        return p
