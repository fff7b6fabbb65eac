"""A 3x3x3 convolution of volumes: video and medical images."""

import torch
import torch.nn as nn

BATCH = 16
IN_CHANNELS = 9
OUT_CHANNELS = 24
DEPTH = 64
HEIGHT = 256
WIDTH = 256


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.layer = nn.Conv3d(in_channels, out_channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS]
