"""Two linear layers with nothing in between."""

import torch
import torch.nn as nn

BATCH = 16
FEATURES = 40


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.first = nn.Linear(features, features, bias=False)
        self.second = nn.Linear(features, features, bias=False)

    def forward(self, x):
        return self.second(self.first(x))


def get_inputs():
    return [torch.randn(BATCH, FEATURES)]


def get_init_inputs():
    return [FEATURES]
