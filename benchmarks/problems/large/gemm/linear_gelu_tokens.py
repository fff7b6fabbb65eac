"""A linear layer and a GELU over a quarter of a million tokens: the first half of a feed-forward layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 262144
WIDTH = 4096
HIDDEN = 8192


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, hidden, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.layer(x))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
