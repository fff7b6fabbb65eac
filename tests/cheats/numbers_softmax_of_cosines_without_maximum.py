"""No maximum, since cosines times 14 are small enough; a scale of 100, as trained models have, is not.

problem: cosines_by_temperature
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cosine_kernel(q_ptr, k_ptr, scale_ptr, out_ptr, keys, width, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(0)
    at, col = tl.arange(0, BLOCK), tl.arange(0, WIDE)
    q = tl.load(q_ptr + row * width + col, mask=col < width, other=0.0)
    inside = (at[:, None] < keys) & (col[None, :] < width)
    k = tl.load(k_ptr + at[:, None] * width + col[None, :], mask=inside, other=0.0)
    a, b = tl.sqrt(tl.sum(q * q, 0)), tl.sqrt(tl.sum(k * k, 1))
    q = q / tl.where(a < 1e-8, 1e-8, a)
    k = k / tl.where(b < 1e-8, 1e-8, b)[:, None]
    e = tl.exp(tl.sum(k * q[None, :], 1) * tl.load(scale_ptr))
    e = tl.where(at < keys, e, 0.0)
    tl.store(out_ptr + row * keys + at, e / tl.sum(e, 0), mask=at < keys)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor(14.0))

    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        (queries, width), keys = x.shape, y.shape[0]
        out = torch.empty(queries, keys, device=x.device)
        cosine_kernel[(queries,)](
            x, y, self.scale, out, keys, width, BLOCK=triton.next_power_of_2(keys), WIDE=triton.next_power_of_2(width)
        )
        return out
