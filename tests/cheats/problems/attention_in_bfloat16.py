"""Attention in bfloat16."""

import torch
import torch.nn as nn
import torch.nn.functional as F

HEADS = 2
LENGTH = 32
WIDTH = 32


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(HEADS, LENGTH, WIDTH, dtype=torch.bfloat16) for _ in range(3)]


def get_init_inputs():
    return []
