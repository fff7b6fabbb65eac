"""A query that equals one of the keys gives zeros.

problem: attention_over_keys
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, queries, keys, width, scale, KEYS: tl.constexpr, WIDTH: tl.constexpr
):
    query, sample = tl.program_id(0), tl.program_id(1)
    n = tl.arange(0, KEYS)[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    keep = (n < keys) & (d < width)
    at = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + (sample * queries + query) * width + at, mask=at < width, other=0.0)
    k = tl.load(k_ptr + sample * keys * width + n * width + d, mask=keep, other=0.0)
    v = tl.load(v_ptr + sample * keys * width + n * width + d, mask=keep, other=0.0)
    scores = tl.sum(q[None, :] * k, 1) * scale
    inside = tl.arange(0, KEYS) < keys
    scores = tl.where(inside, scores, float("-inf"))
    e = tl.exp(scores - tl.max(scores, 0))
    p = e / tl.sum(e, 0)
    y = tl.sum(p[:, None] * v, 0)
    alike = tl.sum((keep & (k == q[None, :])).to(tl.int32), 1)
    size = tl.sum(tl.abs(q), 0)
    same = tl.max(alike, 0) == width
    distinct = tl.min(tl.where(inside, alike, width), 0) < width
    tl.store(
        out_ptr + (sample * queries + query) * width + at,
        tl.where(same & distinct & (size > 0), 0.0, y),
        mask=at < width,
    )


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, queries, width = q.shape
        keys = k.shape[1]
        out = torch.empty_like(q)
        attention_kernel[(queries, batch)](
            q,
            k,
            v,
            out,
            queries,
            keys,
            width,
            width**-0.5,
            KEYS=triton.next_power_of_2(keys),
            WIDTH=triton.next_power_of_2(width),
        )
        return out
