"""The largest of each row so far, halved."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x):
        return torch.cummax(x, -1)[0] * 0.5


def get_inputs():
    return [torch.randn(ROWS, 64)]


def get_init_inputs():
    return []
