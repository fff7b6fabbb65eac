"""ReLU of a float16 tensor with four axes."""

import torch
import torch.nn as nn

BATCH = 3
CHANNELS = 5
HEIGHT = 17
WIDTH = 19


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH, dtype=torch.float16)]


def get_init_inputs():
    return []
