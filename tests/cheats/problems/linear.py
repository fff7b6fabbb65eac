"""A linear layer with bias in float32."""

import torch
import torch.nn as nn

BATCH = 32
IN_FEATURES = 48
OUT_FEATURES = 40


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(BATCH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
