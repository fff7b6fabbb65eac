"""ReLU on 64 MiB of float64."""

import torch
import torch.nn as nn

ROWS = 2048
COLUMNS = 4096


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS, dtype=torch.float64)]


def get_init_inputs():
    return []
