"""A linear layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 20
GIVEN = 32
MADE = 24


class Model(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.linear = nn.Linear(given, made)

    def forward(self, x):
        return self.linear(x)


def get_inputs():
    return [torch.randn(ROWS, GIVEN)]


def get_init_inputs():
    return [GIVEN, MADE]
