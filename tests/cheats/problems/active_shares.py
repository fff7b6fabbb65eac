"""Features after a ReLU, as shares of their sum."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, features, out):
        super().__init__()
        self.linear = nn.Linear(features, out)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        return y / (y.sum(-1, keepdim=True) + 1e-8)


FEATURES = 40
OUT = 70


def get_inputs():
    return [torch.randn(24, FEATURES)]


def get_init_inputs():
    return [FEATURES, OUT]
