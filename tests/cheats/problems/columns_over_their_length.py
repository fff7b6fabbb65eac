"""Columns divided by their length, which is not taken for less than a small number."""

import torch
import torch.nn as nn

ROWS = 40
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x):
        return x / x.norm(dim=0, keepdim=True).clamp_min(1e-6)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
