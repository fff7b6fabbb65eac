"""A small convolution with stride and padding in float32."""

import torch
import torch.nn as nn

BATCH = 2
CHANNELS_IN = 3
CHANNELS_OUT = 7
HEIGHT = 13
WIDTH = 10


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, kernel_size=(3, 2), stride=2, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT]
