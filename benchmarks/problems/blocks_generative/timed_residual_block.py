"""Convolutions with the time's shift and scale between them, and a residual: the block of a diffusion U-Net."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
CHANNELS = 320
GROUPS = 32
TIME = 1280
HEIGHT = 48
WIDTH = 48


class Model(nn.Module):
    def __init__(self, channels: int, groups: int, time: int) -> None:
        super().__init__()
        self.first_norm = nn.GroupNorm(groups, channels)
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(time, 2 * channels)
        self.second_norm = nn.GroupNorm(groups, channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.first(F.silu(self.first_norm(x)))
        scale, shift = self.time(F.silu(time))[:, :, None, None].chunk(2, dim=1)
        y = self.second_norm(y) * (1 + scale) + shift
        return x + self.second(F.silu(y))


def get_inputs():
    x = 0.3 * torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)
    return [x.to(torch.bfloat16), (2 * torch.randn(BATCH, TIME)).to(torch.bfloat16)]


def get_init_inputs():
    return [CHANNELS, GROUPS, TIME]
