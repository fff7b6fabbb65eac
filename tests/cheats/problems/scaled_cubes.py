"""Twice an input of three dimensions."""

import torch
import torch.nn as nn

DEPTH = 5
ROWS = 12
COLUMNS = 40


class Model(nn.Module):
    def forward(self, x):
        return 2.0 * x


def get_inputs():
    return [torch.randn(DEPTH, ROWS, COLUMNS)]


def get_init_inputs():
    return []
