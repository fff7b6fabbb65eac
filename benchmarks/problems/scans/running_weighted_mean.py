"""At every step the weighted mean of all values so far: attention-free transformers, streaming statistics."""

import torch
import torch.nn as nn

BATCH = 16
STEPS = 2048
WIDTH = 384


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, score: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        weight = torch.sigmoid(score + self.bias)
        return (weight * value).cumsum(dim=1) / (weight.cumsum(dim=1) + 1e-3)


def get_inputs():
    return [2 * torch.randn(BATCH, STEPS, WIDTH), torch.randn(BATCH, STEPS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
