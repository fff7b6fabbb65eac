"""Numbers as signed bytes: multiples of a scale, between the limits of a byte."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70
SCALE = 0.02


class Model(nn.Module):
    def forward(self, x):
        return torch.clamp(torch.round(x / SCALE), -128, 127).to(torch.int8)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
