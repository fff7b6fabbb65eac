"""Causal attention over a few heads, float32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 1
HEADS = 2
LENGTH = 32
HEAD_SIZE = 16


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    shape = (BATCH, HEADS, LENGTH, HEAD_SIZE)
    return [torch.randn(shape), torch.randn(shape), torch.randn(shape)]


def get_init_inputs():
    return []
