"""Writes new rows into a cache that it is given, and returns what it adds to the stream."""

import torch
import torch.nn as nn

ROWS = 4096
COLUMNS = 2048


class Model(nn.Module):
    def forward(self, x, cache):
        cache.copy_(x.abs())
        return torch.relu(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS)]


def get_init_inputs():
    return []
