"""A plain loop over time with the state in registers, channels in the block, permuted to time first around the kernel.

problem: linear_recurrence
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def recurrence_kernel(a_ptr, b_ptr, h_ptr, L, BC, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < BC
    h = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(L):
        a = tl.load(a_ptr + t * BC + i, mask=mask, other=0.0)
        b = tl.load(b_ptr + t * BC + i, mask=mask, other=0.0)
        h = a * h + b
        tl.store(h_ptr + t * BC + i, h, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        B, L, C = b.shape
        a_t = a.permute(1, 0, 2).contiguous()
        b_t = b.permute(1, 0, 2).contiguous()
        h_t = torch.empty_like(b_t)
        recurrence_kernel[(triton.cdiv(B * C, 32),)](a_t, b_t, h_t, L, B * C, BLOCK=32, num_warps=1)
        return h_t.permute(1, 0, 2).contiguous()
