"""Sums of rows as far as their lengths say; in the file all lengths are full."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 64


class Model(nn.Module):
    def forward(self, x, lengths):
        inside = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        return (x * inside).sum(1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.full((ROWS,), COLUMNS)]


def get_init_inputs():
    return []
