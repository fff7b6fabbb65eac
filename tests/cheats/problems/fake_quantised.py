"""Numbers put on the grid of eight bits and back, operator by operator."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 128
SCALE = 0.05
ZERO = 128


class Model(nn.Module):
    def forward(self, x):
        return (torch.clamp(torch.round(x / SCALE) + ZERO, 0, 255) - ZERO) * SCALE


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
