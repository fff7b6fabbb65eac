import torch
import torch.nn as nn


class Model(nn.Module):
    """Linear beyond one, cubic within."""

    def forward(self, x):
        return torch.where(x.abs() < 1, x**3, x)


rows = 24
columns = 48


def get_inputs():
    return [torch.randn(rows, columns)]


def get_init_inputs():
    return []
