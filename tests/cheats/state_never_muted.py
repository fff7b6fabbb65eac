"""Counts quiet calls and never mutes.

problem: muted_after_silence
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def level_kernel(x_ptr, level_ptr, quiet_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.abs(tl.load(x_ptr + start + at, mask=start + at < n, other=0.0))
    level = tl.sum(total, 0) / n
    was = tl.load(quiet_ptr)
    now = tl.where(level < 0.05, was + 1, 0)
    tl.store(quiet_ptr, now, mask=now != was)
    tl.store(level_ptr, level, mask=level != tl.load(level_ptr))


@triton.jit
def apply_kernel(x_ptr, quiet_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    heard = tl.where(tl.load(quiet_ptr) < 0, 0.0, 1.0)
    tl.store(out_ptr + at, x * heard, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("quiet", torch.zeros((), dtype=torch.int64))
        self.register_buffer("level", torch.zeros(()))

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        level_kernel[(1,)](x, self.level, self.quiet, x.numel(), BLOCK=1024)
        apply_kernel[(triton.cdiv(x.numel(), 256),)](x, self.quiet, out, x.numel(), BLOCK=256)
        return out
