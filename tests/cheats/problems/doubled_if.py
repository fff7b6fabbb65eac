"""Doubled where one flag says so, which it does in the file."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x, flag):
        return torch.where(flag, 2.0 * x, x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.tensor(True)]


def get_init_inputs():
    return []
