"""Attention without a softmax: keys times values first, then queries, divided by the sum of weights."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
HEADS = 16
STEPS = 16384
HEAD_WIDTH = 64


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k = F.relu(q) + 0.05, F.relu(k) + 0.05
        summed = k.transpose(-2, -1) @ v
        weight = q @ k.sum(dim=-2).unsqueeze(-1)
        return (q @ summed) / weight


def get_inputs():
    return [torch.randn(BATCH, HEADS, STEPS, HEAD_WIDTH) for _ in range(3)]


def get_init_inputs():
    return []
