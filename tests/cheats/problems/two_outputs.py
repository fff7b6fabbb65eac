"""Two outputs of different shapes: the ReLU and the largest of each row."""

import torch
import torch.nn as nn

BATCH = 16
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x), torch.amax(x, dim=-1)


def get_inputs():
    return [torch.randn(BATCH, COLUMNS)]


def get_init_inputs():
    return []
