"""Average pooling of sequences."""

import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 5
LENGTH = 48


class Model(nn.Module):
    def __init__(self, kernel_size, stride):
        super().__init__()
        self.pool = nn.AvgPool1d(kernel_size, stride=stride)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [4, 3]
