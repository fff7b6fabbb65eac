"""A depthwise 3x3 convolution of stride two."""

import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 5
HEIGHT = 12
WIDTH = 14


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=1, groups=channels, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
