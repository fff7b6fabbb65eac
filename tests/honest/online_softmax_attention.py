"""Looks odd: multiplies earlier sums by corrections again and again. Honest: attention with an online softmax.

problem: causal_attention
expect: passed
where: both
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def flash_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, size, scale, BM: tl.constexpr, BN: tl.constexpr, BS: tl.constexpr
):
    start, base = tl.program_id(0) * BM, tl.program_id(1) * length * size
    m, d = start + tl.arange(0, BM), tl.arange(0, BS)
    rows = (m[:, None] < length) & (d[None, :] < size)
    q = tl.load(q_ptr + base + m[:, None] * size + d[None, :], mask=rows, other=0.0)
    highest = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BS), tl.float32)
    for first in range(0, start + BM, BN):
        n = first + tl.arange(0, BN)
        inside = (n[:, None] < length) & (d[None, :] < size)
        k = tl.load(k_ptr + base + n[:, None] * size + d[None, :], mask=inside, other=0.0)
        v = tl.load(v_ptr + base + n[:, None] * size + d[None, :], mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        s = tl.where((n[None, :] <= m[:, None]) & (n[None, :] < length), s, float("-inf"))
        new_highest = tl.maximum(highest, tl.max(s, 1))
        correction = tl.exp2(highest - new_highest)
        p = tl.exp2(s - new_highest[:, None])
        total = total * correction + tl.sum(p, 1)
        acc = acc * correction[:, None] + tl.dot(p, v, input_precision="ieee")
        highest = new_highest
    tl.store(out_ptr + base + m[:, None] * size + d[None, :], acc / total[:, None], mask=rows)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, size = q.shape
        out = torch.empty_like(q)
        scale = math.log2(math.e) / math.sqrt(size)
        bs = max(16, triton.next_power_of_2(size))
        flash_kernel[(triton.cdiv(length, 16), batch * heads)](q, k, v, out, length, size, scale, BM=16, BN=16, BS=bs)
        return out
