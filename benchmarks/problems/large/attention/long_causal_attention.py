"""Fused causal attention over long sequences in bfloat16."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
HEADS = 32
STEPS = 16384
HEAD_WIDTH = 128


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(BATCH, HEADS, STEPS, HEAD_WIDTH, dtype=torch.bfloat16) for _ in range(3)]


def get_init_inputs():
    return []
