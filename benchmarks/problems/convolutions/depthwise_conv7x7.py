"""A 7x7 convolution of every channel by itself, with bias: large-kernel networks."""

import torch
import torch.nn as nn

BATCH = 32
CHANNELS = 192
HEIGHT = 64
WIDTH = 64


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH).half()]


def get_init_inputs():
    return [CHANNELS]
