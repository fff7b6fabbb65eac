"""Layer norm, up, GELU, down, residual: the feed-forward block of GPT-2, OPT and most pre-norm transformers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
STEPS = 1024
WIDTH = 1280


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def get_inputs():
    return [(0.5 * torch.randn(BATCH, STEPS, WIDTH)).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
