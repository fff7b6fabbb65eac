"""Attention by the angle between queries and keys, times a learned factor per head, and a layer scale: Swin v2."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 32
STEPS = 257
HEADS = 12
HEAD_WIDTH = 64


class Model(nn.Module):
    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        width = heads * head_width
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project_in = nn.Linear(width, 3 * width)
        self.sharpness = nn.Parameter(torch.full((heads, 1, 1), 10.0))
        self.project_out = nn.Linear(width, width)
        self.gamma = nn.Parameter(torch.ones(width))
        self.half()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = self.project_in(self.norm(x)).unflatten(-1, (3, self.heads, -1))
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        query, key = F.normalize(query, dim=-1) * self.sharpness, F.normalize(key, dim=-1)
        mixed = F.scaled_dot_product_attention(query, key, value, scale=1.0)
        return x + self.gamma * self.project_out(mixed.transpose(1, 2).flatten(2))


def get_inputs():
    return [(0.2 * torch.randn(BATCH, STEPS, HEADS * HEAD_WIDTH)).half()]


def get_init_inputs():
    return [HEADS, HEAD_WIDTH]
