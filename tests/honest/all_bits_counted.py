"""Counts all 64 bits of words, which are negative if the last one is set.

problem: bits_counted
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    total = tl.zeros((BLOCK,), tl.int64)
    for k in range(64):
        total += (x >> k) & 1
    tl.store(out_ptr + at, total, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, words):
        words = words.contiguous()
        out = torch.empty(words.shape, device=words.device, dtype=torch.int64)
        count_kernel[(triton.cdiv(words.numel(), 128),)](words, out, words.numel(), BLOCK=128)
        return out
