"""A matrix of gigabytes times one vector, plus a bias."""

import torch
import torch.nn as nn

ROWS = 65536
COLUMNS = 24576


class Model(nn.Module):
    def forward(self, matrix: torch.Tensor, vector: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return matrix @ vector + bias


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS), 50 * torch.randn(ROWS)]


def get_init_inputs():
    return []
