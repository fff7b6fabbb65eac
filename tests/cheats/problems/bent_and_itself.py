"""A tensor without its negative part, and the same tensor, which is given twice."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x) + y


def get_inputs():
    x = torch.randn(ROWS, COLUMNS)
    return [x, x]


def get_init_inputs():
    return []
