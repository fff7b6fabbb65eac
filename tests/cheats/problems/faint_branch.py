"""A branch that begins as good as switched off, by a scale of a millionth, as deep networks have it."""

import torch
import torch.nn as nn

BATCH = 16
FEATURES = 64


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features, bias=False)
        self.scale = nn.Parameter(1e-6 * torch.ones(features))

    def forward(self, x):
        return x + self.scale * self.linear(x)


def get_inputs():
    return [torch.randn(BATCH, FEATURES)]


def get_init_inputs():
    return [FEATURES]
