"""Looks odd: a difference of 64-bit integers where all moments fit into a float. Honest: others do not.

problem: fading_since
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fade_kernel(now_ptr, then_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    now = tl.load(now_ptr + at, mask=at < count, other=0)
    then = tl.load(then_ptr + at, mask=at < count, other=0)
    tl.store(out_ptr + at, tl.exp((then - now).to(tl.float32) * 0.01), mask=at < count)


class ModelNew(nn.Module):
    def forward(self, now, then):
        now, then = now.contiguous(), then.contiguous()
        out = torch.empty(now.shape, device=now.device)
        fade_kernel[(triton.cdiv(now.numel(), 256),)](now, then, out, now.numel(), BLOCK=256)
        return out
