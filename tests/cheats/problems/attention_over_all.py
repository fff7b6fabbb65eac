"""Attention over all positions."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 1
HEADS = 2
LENGTH = 40
HEAD_DIM = 32


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, HEAD_DIM) for _ in range(3)]


def get_init_inputs():
    return []
