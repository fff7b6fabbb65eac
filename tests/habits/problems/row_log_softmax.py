"""Log-softmax over the last of three dimensions."""

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 6
COLUMNS = 90


class Model(nn.Module):
    def forward(self, x):
        return torch.log_softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, COLUMNS) * 3.0]


def get_init_inputs():
    return []
