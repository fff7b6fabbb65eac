"""A factor for each feature of sequences."""

import torch
import torch.nn as nn

BATCH = 5
STEPS = 12
FEATURES = 40


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(features))

    def forward(self, x):
        return torch.tanh(x * self.scale)


def get_inputs():
    return [torch.randn(BATCH, STEPS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
