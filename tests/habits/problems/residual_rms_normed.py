"""A residual sum and its RMS norm, both returned."""

import torch
import torch.nn as nn

ROWS = 10
FEATURES = 64


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x, residual):
        total = x + residual
        variance = total.pow(2).mean(-1, keepdim=True)
        return self.weight * (total * torch.rsqrt(variance + 1e-6)), total


def get_inputs():
    return [torch.randn(ROWS, FEATURES), torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES]
