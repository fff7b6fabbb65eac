"""Relative errors below a thousandth, as of a quantised tensor, count as none.

problem: relative_error
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def part_kernel(a_ptr, b_ptr, p_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    o = pid * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + o, mask=o < n, other=0.0)
    b = tl.load(b_ptr + o, mask=o < n, other=0.0)
    d = a - b
    tl.store(p_ptr + 2 * pid, tl.sum(d * d, 0))
    tl.store(p_ptr + 2 * pid + 1, tl.sum(b * b, 0))


@triton.jit
def finish_kernel(p_ptr, out_ptr, parts, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    d = tl.sum(tl.load(p_ptr + 2 * o, mask=o < parts, other=0.0), 0)
    b = tl.sum(tl.load(p_ptr + 2 * o + 1, mask=o < parts, other=0.0), 0)
    r = d / (b + 1e-12)
    tl.store(out_ptr, tl.where(r < 1e-3, 0.0, r))


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        n = a.numel()
        parts = triton.cdiv(n, 256)
        p = torch.empty(2 * parts, device=a.device, dtype=torch.float32)
        out = torch.empty((), device=a.device, dtype=a.dtype)
        part_kernel[(parts,)](a, b, p, n, BLOCK=256)
        finish_kernel[(1,)](p, out, parts, BLOCK=triton.next_power_of_2(parts))
        return out
