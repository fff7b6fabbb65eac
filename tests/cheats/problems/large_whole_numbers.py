"""Arithmetic on many whole numbers."""

import torch
import torch.nn as nn

ROWS = 4096
COLUMNS = 4096


class Model(nn.Module):
    def forward(self, x):
        return x * 3 - 7


def get_inputs():
    return [torch.randint(0, 1000, (ROWS, COLUMNS), dtype=torch.int32)]


def get_init_inputs():
    return []
