"""Counts calls without a better loss, and never lowers the rate.

problem: rate_on_a_plateau
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(loss_ptr, best_ptr, bad_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    loss = tl.sum(tl.load(loss_ptr + at, mask=at < n, other=0.0), 0) / n
    best = tl.load(best_ptr)
    bad = tl.load(bad_ptr) + 1
    tl.store(bad_ptr, tl.where(loss < best, 0, bad))
    tl.store(best_ptr, tl.where(loss < best, loss, best))


@triton.jit
def scale_kernel(g_ptr, rate_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + at, mask=at < n)
    tl.store(out_ptr + at, g * tl.load(rate_ptr), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("best", torch.full((), 1e9))
        self.register_buffer("bad", torch.zeros((), dtype=torch.int64))
        self.register_buffer("rate", torch.ones(()))

    def forward(self, losses, g):
        losses, g = losses.contiguous(), g.contiguous()
        out = torch.empty_like(g)
        count_kernel[(1,)](losses, self.best, self.bad, losses.numel(), BLOCK=triton.next_power_of_2(losses.numel()))
        scale_kernel[(triton.cdiv(g.numel(), 256),)](g, self.rate, out, g.numel(), BLOCK=256)
        return out
