"""Where one flag of two is set, or both."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, a, b):
        return a | b


def get_inputs():
    return [torch.rand(ROWS, COLUMNS) > 0.5, torch.rand(ROWS, COLUMNS) > 0.5]


def get_init_inputs():
    return []
