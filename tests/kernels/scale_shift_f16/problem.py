"""A scale and a shift per channel, broadcast over a batch and a length, in float16."""

import torch
import torch.nn as nn

BATCH = 4
CHANNELS = 19
LENGTH = 83


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(channels, 1, dtype=torch.float16))
        self.shift = nn.Parameter(torch.zeros(channels, 1, dtype=torch.float16))

    def forward(self, x):
        return x * self.scale + self.shift


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH, dtype=torch.float16)]


def get_init_inputs():
    return [CHANNELS]
