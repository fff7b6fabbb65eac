"""A 3x3 convolution in groups, its input added, ReLU: the middle of a ResNeXt block."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 32
CHANNELS = 256
GROUPS = 32
HEIGHT = 56
WIDTH = 56


class Model(nn.Module):
    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.conv(x) + x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH).half()]


def get_init_inputs():
    return [CHANNELS, GROUPS]
