"""The mean of each row in place of its elements."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x):
        return torch.zeros_like(x) + x.mean(-1, keepdim=True)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
