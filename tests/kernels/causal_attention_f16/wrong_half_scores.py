"""Scores are rounded to float16 before they are scaled and raised.

expect: wrong_values
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    steps,
    size,
    scale,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    head = tl.program_id(1) * steps * size
    query = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, BLOCK_D)
    q_inside = (query[:, None] < steps) & (d[None, :] < size)
    q = tl.load(q_ptr + head + query[:, None] * size + d[None, :], mask=q_inside, other=0.0)
    top = tl.full((BLOCK_Q,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK_Q,), tl.float32)
    mixed = tl.zeros((BLOCK_Q, BLOCK_D), tl.float32)
    for start in range(0, steps, BLOCK_K):
        key = start + tl.arange(0, BLOCK_K)
        k_inside = (key[None, :] < steps) & (d[:, None] < size)
        k = tl.load(k_ptr + head + key[None, :] * size + d[:, None], mask=k_inside, other=0.0)
        v_inside = (key[:, None] < steps) & (d[None, :] < size)
        v = tl.load(v_ptr + head + key[:, None] * size + d[None, :], mask=v_inside, other=0.0)
        scores = tl.dot(q, k).to(tl.float16).to(tl.float32) * scale
        scores = tl.where((key[None, :] <= query[:, None]) & (key[None, :] < steps), scores, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, axis=1))
        power = tl.exp(scores - new_top[:, None])
        shrink = tl.exp(top - new_top)
        total = total * shrink + tl.sum(power, axis=1)
        mixed = tl.dot(power, v.to(tl.float32), mixed * shrink[:, None], input_precision="ieee")
        top = new_top
    out = (mixed / total[:, None]).to(tl.float16)
    tl.store(out_ptr + head + query[:, None] * size + d[None, :], out, mask=q_inside)


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, steps, size = q.shape
        out = torch.empty_like(q)
        attention[(triton.cdiv(steps, 16), batch)](
            q,
            k,
            v,
            out,
            steps,
            size,
            1.0 / math.sqrt(size),
            BLOCK_Q=16,
            BLOCK_K=32,
            BLOCK_D=max(16, triton.next_power_of_2(size)),
        )
        return out
