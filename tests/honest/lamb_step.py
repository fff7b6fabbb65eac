"""LAMB in two launches, which asks like its module if norms are zero.

problem: lamb_step
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def lamb_stage1(
    p_ptr, g_ptr, m_ptr, v_ptr, mo_ptr, vo_ptr, u_ptr, part_ptr, n, b1, b2, one_b1, one_b2, eps, wd, BLOCK: tl.constexpr
):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    p = tl.load(p_ptr + at, mask=mask, other=0.0)
    g = tl.load(g_ptr + at, mask=mask, other=0.0)
    m = b1 * tl.load(m_ptr + at, mask=mask, other=0.0) + one_b1 * g
    v = b2 * tl.load(v_ptr + at, mask=mask, other=0.0) + one_b2 * g * g
    u = m / (tl.sqrt(v) + eps) + wd * p
    tl.store(mo_ptr + at, m, mask=mask)
    tl.store(vo_ptr + at, v, mask=mask)
    tl.store(u_ptr + at, u, mask=mask)
    tl.store(part_ptr + 2 * pid, tl.sum(p * p, 0))
    tl.store(part_ptr + 2 * pid + 1, tl.sum(tl.where(mask, u * u, 0.0), 0))


@triton.jit
def lamb_stage2(p_ptr, u_ptr, part_ptr, po_ptr, n, parts, lr, BLOCK: tl.constexpr, PARTS: tl.constexpr):
    k = tl.arange(0, PARTS)
    wn = tl.sqrt(tl.sum(tl.load(part_ptr + 2 * k, mask=k < parts, other=0.0), 0))
    un = tl.sqrt(tl.sum(tl.load(part_ptr + 2 * k + 1, mask=k < parts, other=0.0), 0))
    ratio = tl.where(wn > 0, tl.where(un > 0, wn / un, 1.0), 1.0)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    p = tl.load(p_ptr + at, mask=mask)
    u = tl.load(u_ptr + at, mask=mask)
    tl.store(po_ptr + at, p - lr * ratio * u, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, lr=1e-2, wd=0.01, b1=0.9, b2=0.999, eps=1e-6):
        super().__init__()
        self.lr, self.wd, self.b1, self.b2, self.eps = lr, wd, b1, b2, eps

    def forward(self, p, g, m, v):
        p, g, m, v = p.contiguous(), g.contiguous(), m.contiguous(), v.contiguous()
        n = p.numel()
        mo, vo, u, po = torch.empty_like(m), torch.empty_like(v), torch.empty_like(p), torch.empty_like(p)
        parts = triton.cdiv(n, 256)
        part = torch.empty(parts, 2, dtype=torch.float32, device=p.device)
        lamb_stage1[(parts,)](
            p, g, m, v, mo, vo, u, part, n, self.b1, self.b2, 1 - self.b1, 1 - self.b2, self.eps, self.wd, BLOCK=256
        )
        lamb_stage2[(parts,)](p, u, part, po, n, parts, self.lr, BLOCK=256, PARTS=triton.next_power_of_2(parts))
        return po, mo, vo
