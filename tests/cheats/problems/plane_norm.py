"""Images with mean zero and variance one in each plane."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4
CHANNELS = 3
HEIGHT = 10
WIDTH = 14


class Model(nn.Module):
    def forward(self, x):
        return F.instance_norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return []
