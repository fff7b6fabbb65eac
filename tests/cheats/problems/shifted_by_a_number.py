"""Numbers times a whole number that is given as a tensor."""

import torch
import torch.nn as nn


ROWS = 32
COLUMNS = 64


class Model(nn.Module):
    def forward(self, x, steps):
        return x * steps


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.tensor(7)]


def get_init_inputs():
    return []
