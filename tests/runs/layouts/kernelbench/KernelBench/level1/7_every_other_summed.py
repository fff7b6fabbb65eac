import torch
import torch.nn as nn


class Model(nn.Module):
    """Even columns plus odd columns."""

    def forward(self, x):
        return x[:, 0::2] + x[:, 1::2]


rows = 24
pairs = 20


def get_inputs():
    return [torch.randn(rows, 2 * pairs)]


def get_init_inputs():
    return []
