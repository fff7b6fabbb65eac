"""Causal attention of one head per batch entry in float16."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3
STEPS = 37
HEAD_SIZE = 32


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(BATCH, STEPS, HEAD_SIZE, dtype=torch.float16) for _ in range(3)]


def get_init_inputs():
    return []
