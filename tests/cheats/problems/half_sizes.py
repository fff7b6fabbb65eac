"""The absolute value of numbers in half precision."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x):
        return torch.abs(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS).half()]


def get_init_inputs():
    return []
