"""Keeps the two largest shares of a router, those that are not below the second largest.

On a GPU it is wrong now and then: threads hold copies of a score, each with another product fused into the sum, so that
a share may be smaller than its own copy.

problem: routed_to_two
expect: passed
where: cpu
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def route_kernel(x_ptr, w_ptr, out_ptr, width, experts, EXPERTS: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    n = tl.arange(0, EXPERTS)
    d = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + token * width + d, mask=d < width, other=0.0)
    w = tl.load(w_ptr + n[:, None] * width + d[None, :], mask=(n[:, None] < experts) & (d[None, :] < width), other=0.0)
    scores = tl.where(n < experts, tl.sum(w * x[None, :], 1), float("-inf"))
    e = tl.exp(scores - tl.max(scores, 0))
    p = e / tl.sum(e, 0)
    best = tl.max(p, 0)
    second = tl.max(tl.where(p == best, -1.0, p), 0)
    tl.store(
        out_ptr + token * experts + n,
        tl.where(p >= second, p, 0.0) / tl.sum(tl.where(p >= second, p, 0.0), 0),
        mask=n < experts,
    )


class ModelNew(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)

    def forward(self, x):
        x = x.contiguous()
        experts, width = self.router.weight.shape
        out = torch.empty(x.shape[0], experts, device=x.device)
        route_kernel[(x.shape[0],)](
            x,
            self.router.weight.contiguous(),
            out,
            width,
            experts,
            EXPERTS=triton.next_power_of_2(experts),
            BLOCK=triton.next_power_of_2(width),
        )
        return out
