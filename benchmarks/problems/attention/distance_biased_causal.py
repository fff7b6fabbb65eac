"""Causal attention with a penalty per head that grows with the distance: ALiBi, as in BLOOM and MPT."""

import torch
import torch.nn as nn

BATCH = 2
HEADS = 12
STEPS = 768
HEAD_WIDTH = 80


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.exp2(-8.0 * torch.arange(1, heads + 1) / heads))

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        at = torch.arange(query.shape[2], device=query.device)
        back = at[:, None] - at
        bias = (-self.slopes[:, None, None] * back).masked_fill(back < 0, float("-inf"))
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5 + bias
        return torch.softmax(scores, dim=-1) @ value


def get_inputs():
    return [torch.randn(BATCH, HEADS, STEPS, HEAD_WIDTH) for _ in range(3)]


def get_init_inputs():
    return [HEADS]
