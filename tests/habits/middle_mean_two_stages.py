"""Partial sums of chunks into a workspace kept by shape, then their sum in a second kernel.

problem: middle_mean
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl

CHUNK = 16


@triton.jit
def chunk_sum(x_ptr, ws_ptr, L, F, chunks, CHUNK: tl.constexpr, BLOCK_F: tl.constexpr):
    b = tl.program_id(0)
    chunk = tl.program_id(1)
    l = chunk * CHUNK + tl.arange(0, CHUNK)
    for f0 in range(0, F, BLOCK_F):
        f = f0 + tl.arange(0, BLOCK_F)
        x = tl.load(x_ptr + (b * L + l[:, None]) * F + f[None, :], mask=(l[:, None] < L) & (f[None, :] < F), other=0.0)
        tl.store(ws_ptr + (b * chunks + chunk) * F + f, tl.sum(x, axis=0), mask=f < F)


@triton.jit
def finish(ws_ptr, y_ptr, F, chunks, inverse, BLOCK_F: tl.constexpr):
    b = tl.program_id(0)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    total = tl.zeros((BLOCK_F,), tl.float32)
    for chunk in range(chunks):
        total += tl.load(ws_ptr + (b * chunks + chunk) * F + f, mask=f < F, other=0.0)
    tl.store(y_ptr + b * F + f, total * inverse, mask=f < F)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.workspaces = {}

    def forward(self, x):
        x = x.contiguous()
        B, L, F = x.shape
        chunks = triton.cdiv(L, CHUNK)
        shape = (B, chunks, F)
        ws = self.workspaces.get(shape)
        if ws is None or ws.device != x.device:
            ws = self.workspaces[shape] = torch.empty(shape, device=x.device, dtype=torch.float32)
        y = torch.empty((B, F), device=x.device, dtype=x.dtype)
        chunk_sum[(B, chunks)](x, ws, L, F, chunks, CHUNK=CHUNK, BLOCK_F=32)
        finish[(B, triton.cdiv(F, 64))](ws, y, F, chunks, 1.0 / L, BLOCK_F=64)
        return y
