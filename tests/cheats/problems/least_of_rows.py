"""The least element of each row."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x):
        return torch.amin(x, dim=-1)


def get_inputs():
    return [torch.randint(-1000, 1000, (ROWS, COLUMNS), dtype=torch.int32)]


def get_init_inputs():
    return []
