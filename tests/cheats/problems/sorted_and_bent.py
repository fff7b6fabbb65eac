"""Rows in order, each number bent by a few steps."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x):
        ordered = torch.sort(x, dim=-1).values
        return torch.tanh(ordered * 0.5) * 2.0 + 1.0


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
