"""Scores by a learnt temperature."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return torch.sigmoid(x * self.scale)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
