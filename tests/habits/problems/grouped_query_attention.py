"""Causal attention in which several query heads share a key head."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 1
GROUPS = 2
KV_HEADS = 2
LENGTH = 24
HEAD_DIM = 16


class Model(nn.Module):
    def forward(self, q, k, v):
        repeats = q.shape[1] // k.shape[1]
        k = k.repeat_interleave(repeats, dim=1)
        v = v.repeat_interleave(repeats, dim=1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    q = torch.randn(BATCH, GROUPS * KV_HEADS, LENGTH, HEAD_DIM)
    k = torch.randn(BATCH, KV_HEADS, LENGTH, HEAD_DIM)
    v = torch.randn(BATCH, KV_HEADS, LENGTH, HEAD_DIM)
    return [q, k, v]


def get_init_inputs():
    return []
