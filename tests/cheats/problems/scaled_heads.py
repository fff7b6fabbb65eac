"""Weights of each head, sharpened by its own learnt factor."""

import torch
import torch.nn as nn

HEADS = 8
ROWS = 12
COLUMNS = 40


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((HEADS, 1, 1), 10.0))

    def forward(self, x):
        return torch.softmax(torch.tanh(x) * self.scale, -1)


def get_inputs():
    return [torch.randn(2, HEADS, ROWS, COLUMNS)]


def get_init_inputs():
    return []
