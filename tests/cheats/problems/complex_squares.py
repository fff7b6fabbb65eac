"""Squares of complex numbers."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 48


class Model(nn.Module):
    def forward(self, x):
        return x * x


def get_inputs():
    return [torch.randn(ROWS, COLUMNS, dtype=torch.complex64)]


def get_init_inputs():
    return []
