"""Largest and mean channel of every pixel, a 7x7 convolution of the two, a sigmoid gate on the map: CBAM."""

import torch
import torch.nn as nn

BATCH = 32
CHANNELS = 128
HEIGHT = 72
WIDTH = 72


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 1, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = torch.stack([x.amax(dim=1), x.mean(dim=1)], dim=1)
        return x * torch.sigmoid(self.conv(seen))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) + torch.randn(BATCH, 1, HEIGHT, WIDTH)]


def get_init_inputs():
    return []
