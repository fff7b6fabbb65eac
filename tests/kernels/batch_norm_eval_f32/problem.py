"""Batch normalisation with running statistics, as at inference, and a ReLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 3
CHANNELS = 10
HEIGHT = 9
WIDTH = 11


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.randn(channels))
        self.register_buffer("running_var", torch.rand(channels) + 0.05)

    def forward(self, x):
        y = F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, training=False, eps=1e-3)
        return torch.relu(y)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
