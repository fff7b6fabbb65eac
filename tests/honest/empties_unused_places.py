"""Places of tokens in their experts' queues; tokens beyond the capacity are dropped.

problem: places_in_queues
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def dispatch(x_ptr, e_ptr, o_ptr, k_ptr, n, D, CAP, BN: tl.constexpr, BD: tl.constexpr):
    mine = tl.program_id(0)
    d = tl.arange(0, BD)
    used = tl.full((), 0, tl.int32)
    for i0 in range(0, n, BN):
        i = i0 + tl.arange(0, BN)
        e = tl.load(e_ptr + i, mask=i < n, other=-1)
        hit = e == mine
        place = used + tl.cumsum(hit.to(tl.int32), 0) - 1
        kept = hit & (place < CAP)
        tl.store(k_ptr + i, kept, mask=hit)
        x = tl.load(x_ptr + i[:, None] * D + d[None, :], mask=kept[:, None] & (d < D)[None, :], other=0.0)
        tl.store(o_ptr + (mine * CAP + place[:, None]) * D + d[None, :], x, mask=kept[:, None] & (d < D)[None, :])
        used += tl.sum(hit.to(tl.int32), 0)
    for s in range(tl.minimum(used, CAP), CAP):
        tl.store(o_ptr + (mine * CAP + s) * D + d, tl.zeros((BD,), tl.float32), mask=d < D)


class ModelNew(nn.Module):
    def __init__(self, experts, capacity):
        super().__init__()
        self.experts, self.capacity = experts, capacity

    def forward(self, x, expert):
        x, expert = x.contiguous(), expert.contiguous()
        n, D = x.shape
        o = torch.empty((self.experts, self.capacity, D), device=x.device, dtype=x.dtype)
        kept = torch.empty(n, device=x.device, dtype=torch.bool)
        dispatch[(self.experts,)](x, expert, o, kept, n, D, self.capacity, BN=8, BD=triton.next_power_of_2(D))
        return o, kept
