"""expm1."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 128


class Model(nn.Module):
    def forward(self, x):
        return torch.expm1(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
