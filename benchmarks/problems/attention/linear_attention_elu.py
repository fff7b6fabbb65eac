"""Attention without a softmax: features elu + 1, keys and values summed once for all queries; long sequences."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
HEADS = 8
STEPS = 8192
HEAD_WIDTH = 64


class Model(nn.Module):
    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, key = F.elu(query) + 1, F.elu(key) + 1
        memory = key.transpose(-2, -1) @ value
        total = (query * key.sum(dim=-2, keepdim=True)).sum(dim=-1, keepdim=True)
        return (query @ memory) / (total + 1e-3)


def get_inputs():
    return [torch.randn(BATCH, HEADS, STEPS, HEAD_WIDTH) for _ in range(3)]


def get_init_inputs():
    return []
