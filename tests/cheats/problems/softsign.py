"""Each number over one more than its size."""

import torch
import torch.nn as nn

ROWS = 48
COLUMNS = 64


class Model(nn.Module):
    def forward(self, x):
        return x / (1 + x.abs())


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
