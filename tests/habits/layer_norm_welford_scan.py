"""Welford's formula as a function that combines tuples in tl.reduce, parameters reached through attributes.

problem: layer_normed
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def welford_combine(mean_a, m2_a, weight_a, mean_b, m2_b, weight_b):
    delta = mean_b - mean_a
    weight = weight_a + weight_b
    ratio = tl.where(weight == 0.0, 0.0, weight_b / tl.where(weight == 0.0, 1.0, weight))
    return mean_a + delta * ratio, m2_a + m2_b + delta * delta * weight_a * ratio, weight


@triton.jit
def layer_norm_kernel(
    in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, rnumel, eps, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr
):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rindex = tl.arange(0, RBLOCK)[None, :]
    rmask = rindex < rnumel
    tmp0 = tl.load(in_ptr0 + (rindex + rnumel * xindex), xmask & rmask, other=0.0)
    weight = tl.where(xmask & rmask, 1.0, 0.0)
    mean, m2, count = tl.reduce((tmp0, tl.zeros_like(tmp0), weight), 1, welford_combine)
    tmp1 = tl.rsqrt(m2[:, None] / rnumel + eps)
    tmp2 = tl.load(in_ptr1 + rindex, rmask, eviction_policy="evict_last", other=0.0)
    tmp3 = tl.load(in_ptr2 + rindex, rmask, eviction_policy="evict_last", other=0.0)
    tmp4 = (tmp0 - mean[:, None]) * tmp1 * tmp2 + tmp3
    tl.store(out_ptr0 + (rindex + rnumel * xindex), tmp4, xmask & rmask)


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        self.norm = nn.LayerNorm(features, eps=eps)

    def forward(self, arg0_1):
        arg0_1 = arg0_1.contiguous()
        rnumel = arg0_1.size(-1)
        xnumel = arg0_1.numel() // rnumel
        buf0 = torch.empty_strided(arg0_1.size(), arg0_1.stride(), dtype=arg0_1.dtype, device=arg0_1.device)
        layer_norm_kernel[(triton.cdiv(xnumel, 4),)](
            arg0_1,
            self.norm.weight,
            self.norm.bias,
            buf0,
            xnumel,
            rnumel,
            self.norm.eps,
            XBLOCK=4,
            RBLOCK=triton.next_power_of_2(rnumel),
        )
        return buf0
