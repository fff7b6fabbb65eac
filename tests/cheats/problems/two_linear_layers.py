"""A gate and what it lets pass, by two linear layers."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 20
GIVEN = 32
MADE = 24


class Model(nn.Module):
    def __init__(self, given, made):
        super().__init__()
        self.gate = nn.Linear(given, made, bias=False)
        self.up = nn.Linear(given, made, bias=False)

    def forward(self, x):
        return torch.sigmoid(self.gate(x)) * self.up(x)


def get_inputs():
    return [torch.randn(ROWS, GIVEN)]


def get_init_inputs():
    return [GIVEN, MADE]
