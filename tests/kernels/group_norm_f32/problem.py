"""Group normalisation of images whose mean is large against their spread."""

import torch
import torch.nn as nn

BATCH = 4
GROUPS = 3
CHANNELS_PER_GROUP = 4
HEIGHT = 7
WIDTH = 9


class Model(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, GROUPS * CHANNELS_PER_GROUP, HEIGHT, WIDTH) + 50.0]


def get_init_inputs():
    return [GROUPS, GROUPS * CHANNELS_PER_GROUP]
