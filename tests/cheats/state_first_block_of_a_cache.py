"""Only the first sixteen keys of the cache are looked at.

problem: decoding_with_a_cache
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def step_kernel(q_ptr, k_ptr, v_ptr, keys_ptr, values_ptr, seen_ptr, out_ptr, D, BK: tl.constexpr, BD: tl.constexpr):
    d = tl.arange(0, BD)
    j = tl.arange(0, BK)
    seen = tl.load(seen_ptr)
    q = tl.load(q_ptr + d, mask=d < D, other=0.0)
    new_k = tl.load(k_ptr + d, mask=d < D, other=0.0)
    new_v = tl.load(v_ptr + d, mask=d < D, other=0.0)
    kept = (j[:, None] < seen) & (d[None, :] < D)
    k = tl.load(keys_ptr + j[:, None] * D + d[None, :], mask=kept, other=0.0)
    v = tl.load(values_ptr + j[:, None] * D + d[None, :], mask=kept, other=0.0)
    k = tl.where(j[:, None] == seen, new_k[None, :], k)
    v = tl.where(j[:, None] == seen, new_v[None, :], v)
    s = tl.where(j <= seen, tl.sum(k * q[None, :], 1), float("-inf"))
    p = tl.exp(s - tl.max(s, 0))
    tl.store(out_ptr + d, tl.sum(p[:, None] * v, 0) / tl.sum(p, 0), mask=d < D)
    tl.store(keys_ptr + seen * D + d, new_k, mask=(d < D) & (seen < 64))
    tl.store(values_ptr + seen * D + d, new_v, mask=(d < D) & (seen < 64))


@triton.jit
def count_kernel(seen_ptr):
    tl.store(seen_ptr, tl.load(seen_ptr) + 1)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.register_buffer("keys", torch.zeros(64, features))
        self.register_buffer("values", torch.zeros(64, features))
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))

    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        d = q.shape[0]
        out = torch.empty_like(q)
        step_kernel[(1,)](q, k, v, self.keys, self.values, self.seen, out, d, BK=16, BD=triton.next_power_of_2(d))
        count_kernel[(1,)](self.seen)
        return out
