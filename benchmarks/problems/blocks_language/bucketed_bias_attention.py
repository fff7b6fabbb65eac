"""Attention with a learned bias by distance, in buckets that widen with it, and no scaling: T5's encoder."""

import torch
import torch.nn as nn

BATCH = 4
STEPS = 512
HEADS = 12
HEAD_WIDTH = 64


class Model(nn.Module):
    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        width = heads * head_width
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width, bias=False)
        self.project_out = nn.Linear(width, width, bias=False)
        self.bias = nn.Embedding(16, heads)
        self.register_buffer("edges", torch.tensor([1, 2, 3, 5, 8, 16, 64]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project_in(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        at = torch.arange(x.shape[1], device=x.device)
        bias = self.bias(self.buckets(at - at[:, None])).permute(2, 0, 1)
        shares = torch.softmax(query @ key.transpose(-2, -1) + bias, dim=-1)
        return self.project_out((shares @ value).transpose(1, 2).flatten(2))

    def buckets(self, distance: torch.Tensor) -> torch.Tensor:
        return torch.bucketize(distance.abs(), self.edges, right=True) + 8 * (distance > 0)


def get_inputs():
    return [0.7 * torch.randn(BATCH, STEPS, HEADS * HEAD_WIDTH)]


def get_init_inputs():
    return [HEADS, HEAD_WIDTH]
