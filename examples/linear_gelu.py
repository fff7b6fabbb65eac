"""A projection and its activation, in float32: where a product dominates, and libraries leave time on the table."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, WIDTH, HIDDEN = 4096, 1024, 4096


class Model(nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.up(x))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
