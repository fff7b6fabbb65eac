"""A number in the place of another, all others as they are."""

import torch
import torch.nn as nn


ROWS = 48
COLUMNS = 80


class Model(nn.Module):
    def forward(self, x):
        return torch.where(x == 0.5, torch.ones_like(x), x) * 2


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
