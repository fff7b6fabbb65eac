"""A running mean, taken from differences to the middle of each column: an infinity becomes NaN in it."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 48


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.register_buffer("mean", torch.zeros(columns))

    def forward(self, x):
        middle = (x.amax(0) + x.amin(0)) / 2
        self.mean.add_(0.1 * (middle + (x - middle).mean(0) - self.mean))
        return x * 2


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]
