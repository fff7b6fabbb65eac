"""The mask is looked up as if it had one entry per key.

expect: wrong_values
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_fill(score_ptr, hidden_ptr, out_ptr, batch, queries, keys, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr):
    query = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    key = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    inside = (query[:, None] < queries) & (key[None, :] < keys)
    place = query[:, None] * keys + key[None, :]
    hidden = tl.load(hidden_ptr + key, mask=key < keys, other=0)[None, :]
    for b in range(batch):
        score = tl.load(score_ptr + b * queries * keys + place, mask=inside, other=0.0)
        filled = tl.where(hidden != 0, -10000.0, score.to(tl.float32))
        tl.store(out_ptr + b * queries * keys + place, filled.to(tl.float16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, scores, hidden):
        scores, hidden = scores.contiguous(), hidden.contiguous()
        batch, queries, keys = scores.shape
        out = torch.empty(scores.shape, dtype=scores.dtype, device=scores.device)
        grid = (triton.cdiv(queries, 16), triton.cdiv(keys, 32))
        masked_fill[grid](scores, hidden, out, batch, queries, keys, BLOCK_Q=16, BLOCK_K=32)
        return out
