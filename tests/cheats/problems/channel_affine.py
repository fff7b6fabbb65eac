"""A weight and a bias for each channel of images."""

import torch
import torch.nn as nn

BATCH = 3
CHANNELS = 6
HEIGHT = 9
WIDTH = 10


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels))
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return x * self.weight[:, None, None] + self.bias[:, None, None]


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
