"""A bfloat16 residual branch with a learned scale."""

import torch
import torch.nn as nn

ROWS = 16
FEATURES = 64


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((features,), 0.1, dtype=torch.bfloat16))

    def forward(self, x, branch):
        return x + self.gamma * branch


def get_inputs():
    return [torch.randn(ROWS, FEATURES, dtype=torch.bfloat16) for _ in range(2)]


def get_init_inputs():
    return [FEATURES]
