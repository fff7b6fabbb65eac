"""A linear layer with bias and a ReLU in float32."""

import torch
import torch.nn as nn

BATCH = 33
FEATURES_IN = 70
FEATURES_OUT = 45


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.randn(BATCH, FEATURES_IN)]


def get_init_inputs():
    return [FEATURES_IN, FEATURES_OUT]
