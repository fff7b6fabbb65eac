"""Max pooling with overlap and padding."""

import torch
import torch.nn as nn

BATCH = 2
CHANNELS = 4
HEIGHT = 12
WIDTH = 15


class Model(nn.Module):
    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride, padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [3, 2, 1]
