"""Rows divided by their length and a little more."""

import torch
import torch.nn as nn

ROWS = 4096
COLUMNS = 1024


class Model(nn.Module):
    def forward(self, x):
        return x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) + 1e-8)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
