"""Causal attention of several heads in float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
HEADS = 2
STEPS = 43
HEAD_SIZE = 20


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(BATCH, HEADS, STEPS, HEAD_SIZE) for _ in range(3)]


def get_init_inputs():
    return []
