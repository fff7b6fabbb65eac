"""Rows with those of a table added, by position."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.table = nn.Parameter(torch.randn(n, d))

    def forward(self, x, positions):
        return x + self.table[positions]


def get_inputs():
    return [torch.randn(40, 12), torch.arange(40)]


def get_init_inputs():
    return [128, 12]
