"""ReLU on numbers of both signs."""

import torch
import torch.nn as nn

ROWS = 40
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
