"""Looks odd: torch.einsum, cos and sin in a forward. Honest: a table of angles, made once for each length.

problem: rotary
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rotate_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, length, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    ok = at < half
    a = tl.load(x_ptr + row * 2 * half + at, mask=ok)
    b = tl.load(x_ptr + row * 2 * half + half + at, mask=ok)
    c = tl.load(cos_ptr + (row % length) * half + at, mask=ok)
    s = tl.load(sin_ptr + (row % length) * half + at, mask=ok)
    tl.store(out_ptr + row * 2 * half + at, a * c - b * s, mask=ok)
    tl.store(out_ptr + row * 2 * half + half + at, a * s + b * c, mask=ok)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def table(self, length, half, device):
        if length not in self.tables or self.tables[length][0].shape[1] != half:
            inv = 1.0 / (10000.0 ** (torch.arange(half, device=device).float() / half))
            angles = torch.einsum("i,j->ij", torch.arange(length, device=device).float(), inv)
            self.tables[length] = (angles.cos().contiguous(), angles.sin().contiguous())
        return self.tables[length]

    def forward(self, x):
        x = x.contiguous()
        b, h, n, d = x.shape
        cos, sin = self.table(n, d // 2, x.device)
        out = torch.empty_like(x)
        rotate_kernel[(b * h * n,)](x, cos, sin, out, n, d // 2, BLOCK=triton.next_power_of_2(d // 2))
        return out
