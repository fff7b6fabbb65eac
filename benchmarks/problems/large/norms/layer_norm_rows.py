"""Layer norm of long rows with weight and bias: transformers, over a quarter of a million tokens."""

import torch
import torch.nn as nn

TOKENS = 262144
WIDTH = 4096


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(TOKENS, WIDTH) * torch.rand(TOKENS, 1) + 0.5]


def get_init_inputs():
    return [WIDTH]
