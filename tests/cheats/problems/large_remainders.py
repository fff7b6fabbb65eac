"""Remainders of whole numbers, which are positive as given."""

import torch
import torch.nn as nn

ROWS = 4096
COLUMNS = 1024
DIVISOR = 7


class Model(nn.Module):
    def forward(self, x):
        return torch.remainder(x, DIVISOR)


def get_inputs():
    return [torch.randint(0, 1000, (ROWS, COLUMNS), dtype=torch.int32)]


def get_init_inputs():
    return []
