"""The four largest of each row, and where they are."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x):
        return tuple(torch.topk(x, 4, dim=-1))


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
