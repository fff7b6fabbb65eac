"""Group norm of volumes: 3-d U-Nets for medical images."""

import torch
import torch.nn as nn

BATCH = 16
CHANNELS = 32
GROUPS = 8
DEPTH = 64
HEIGHT = 192
WIDTH = 192


class Model(nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels, eps=1e-3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH) * torch.rand(BATCH, CHANNELS, 1, 1, 1) + 0.3]


def get_init_inputs():
    return [GROUPS, CHANNELS]
