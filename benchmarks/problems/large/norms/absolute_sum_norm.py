"""Rows brought to an absolute sum of one, times their width: mixing weights of signed features."""

import torch
import torch.nn as nn

ROWS = 32768
WIDTH = 40960


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x.abs().mean(dim=1, keepdim=True) + 1e-2)


def get_inputs():
    return [torch.randn(ROWS, WIDTH) * (0.1 + torch.rand(ROWS, 1))]


def get_init_inputs():
    return []
