"""Sines where a mask of whole numbers is set."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x, mask):
        return torch.where(mask.bool(), torch.sin(x), 0.0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randint(0, 2, (ROWS, COLUMNS))]


def get_init_inputs():
    return []
