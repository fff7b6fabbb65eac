"""Addition of two vectors."""

import torch
import torch.nn as nn

SIZE = 3000


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.randn(SIZE), torch.randn(SIZE)]


def get_init_inputs():
    return []
