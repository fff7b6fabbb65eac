"""Scale and add: x * 2 + y, the smallest problem with two inputs."""

import torch
import torch.nn as nn

SIZE = 4000


class Model(nn.Module):
    def forward(self, x, y):
        return x * 2.0 + y


def get_inputs():
    return [torch.randn(SIZE), torch.randn(SIZE)]


def get_init_inputs():
    return []
