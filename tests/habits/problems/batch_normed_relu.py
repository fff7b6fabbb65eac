"""Batch norm with its running statistics, then ReLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
CHANNELS = 6
HEIGHT = 8
WIDTH = 9


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        self.bn.running_mean.copy_(torch.randn(channels))
        self.bn.running_var.copy_(torch.rand(channels) + 0.5)

    def forward(self, x):
        bn = self.bn
        y = F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias, training=False, eps=bn.eps)
        return F.relu(y)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
