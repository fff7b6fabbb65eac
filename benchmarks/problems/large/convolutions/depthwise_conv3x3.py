"""Every channel convolved by itself: the middle of mobile networks, at high resolution."""

import torch
import torch.nn as nn

BATCH = 32
CHANNELS = 128
HEIGHT = 512
WIDTH = 512


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layer = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
