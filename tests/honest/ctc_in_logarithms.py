"""CTC loss of short sequences: the forward algorithm in log space.

problem: ctc_of_short_texts
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def ctc_kernel(lp_ptr, t_ptr, il_ptr, tl_ptr, a_ptr, o_ptr, B, C, S, W, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    steps = tl.load(il_ptr + b).to(tl.int32)
    u = tl.load(tl_ptr + b).to(tl.int32)
    s = tl.arange(0, BLOCK)
    width = 2 * u + 1
    ok = s < width
    odd = (s % 2) == 1
    lab = tl.load(t_ptr + b * S + s // 2, mask=ok & odd, other=0)
    prev = tl.load(t_ptr + b * S + s // 2 - 1, mask=ok & odd & (s > 1), other=0)
    skip = odd & (s > 1) & (lab != prev)
    NEG = -float("inf")
    alpha = tl.where(ok & (s < 2), tl.load(lp_ptr + b * C + lab, mask=ok & (s < 2), other=0.0), NEG)
    row = a_ptr + b * W
    for t in range(1, steps):
        tl.store(row + s, alpha, mask=s < W)
        tl.debug_barrier()
        a1 = tl.load(row + s - 1, mask=ok & (s >= 1), other=NEG)
        a2 = tl.load(row + s - 2, mask=ok & skip, other=NEG)
        tl.debug_barrier()
        mx = tl.maximum(alpha, tl.maximum(a1, a2))
        safe = tl.where(mx == NEG, 0.0, mx)
        total = tl.exp(alpha - safe) + tl.exp(a1 - safe) + tl.exp(a2 - safe)
        lse = tl.where(mx == NEG, NEG, safe + tl.log(tl.where(mx == NEG, 1.0, total)))
        lp = tl.load(lp_ptr + (t * B + b) * C + lab, mask=ok, other=0.0)
        alpha = tl.where(ok, lse + lp, NEG)
    end = tl.where(ok & (s >= width - 2), alpha, NEG)
    mx = tl.max(end, axis=0)
    safe = tl.where(mx == NEG, 0.0, mx)
    total = tl.sum(tl.exp(end - safe), axis=0)
    out = tl.where(mx == NEG, -NEG, -(safe + tl.log(tl.where(total > 0, total, 1.0))))
    tl.store(o_ptr + b, out)


class ModelNew(nn.Module):
    def forward(self, logp, targets, in_len, tg_len):
        logp, targets = logp.contiguous(), targets.contiguous()
        T, B, C = logp.shape
        S = targets.shape[1]
        W = triton.next_power_of_2(2 * S + 1)
        a = torch.empty((B, W), device=logp.device, dtype=torch.float32)
        o = torch.empty(B, device=logp.device, dtype=torch.float32)
        ctc_kernel[(B,)](logp, targets, in_len.contiguous(), tg_len.contiguous(), a, o, B, C, S, W, BLOCK=W)
        return o
