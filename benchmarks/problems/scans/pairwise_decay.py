"""Decay between any two steps of a chunk, as a lower triangle: exp of differences of a cumulative sum; Mamba 2."""

import torch
import torch.nn as nn
import torch.nn.functional as F

CHUNKS = 128
HEADS = 24
STEPS = 128


class Model(nn.Module):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.log_rate = nn.Parameter(torch.linspace(-4.0, 0.0, heads))

    def forward(self, step: torch.Tensor) -> torch.Tensor:
        logs = -(F.softplus(step) * self.log_rate.exp()[:, None]).cumsum(dim=-1)
        decay = torch.exp(logs[..., :, None] - logs[..., None, :])
        return decay.tril()


def get_inputs():
    return [torch.randn(CHUNKS, HEADS, STEPS) - 2]


def get_init_inputs():
    return [HEADS]
