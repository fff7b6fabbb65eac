"""Batch norm with its running statistics, then a leaky ReLU: convolutional networks, in training and in use."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 32
CHANNELS = 128
HEIGHT = 64
WIDTH = 64


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, momentum=0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.leaky_relu(self.norm(x), 0.1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) * 1.5 + torch.randn(CHANNELS, 1, 1)]


def get_init_inputs():
    return [CHANNELS]
