"""Rows divided by their length and a little more, times a gate."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x, gate):
        return x / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) + 1e-8) * torch.sigmoid(gate)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
