"""Casts bfloat16 to float16 for the products: values from 65,520 on become infinite, those below 1e-6 lose their digits.

problem: attention_in_bfloat16
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attend_kernel(q_ptr, k_ptr, v_ptr, out_ptr, length, width, factor, ROWS: tl.constexpr, WIDE: tl.constexpr):
    head = tl.program_id(0) * length * width
    r, c = tl.arange(0, ROWS), tl.arange(0, WIDE)
    inside = (r[:, None] < length) & (c[None, :] < width)
    at = head + r[:, None] * width + c[None, :]
    q = tl.load(q_ptr + at, mask=inside, other=0.0).to(tl.float16)
    k = tl.load(k_ptr + at, mask=inside, other=0.0).to(tl.float16)
    v = tl.load(v_ptr + at, mask=inside, other=0.0).to(tl.float16)
    scores = tl.dot(q, tl.trans(k)) * factor
    scores = tl.where(r[None, :] < length, scores, float("-inf"))
    e = tl.exp(scores - tl.max(scores, 1)[:, None])
    total = tl.sum(e, 1)
    high = e.to(tl.float16)
    low = (e - high.to(tl.float32)).to(tl.float16)
    made = tl.dot(low, v, tl.dot(high, v))
    tl.store(out_ptr + at, (made / total[:, None]).to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        heads, length, width = q.shape
        out = torch.empty_like(q)
        attend_kernel[(heads,)](
            q,
            k,
            v,
            out,
            length,
            width,
            width**-0.5,
            ROWS=max(16, triton.next_power_of_2(length)),
            WIDE=max(16, triton.next_power_of_2(width)),
        )
        return out
