"""A difference of the halves of one tensor."""

import torch
import torch.nn as nn


ROWS = 32
COLUMNS = 64


class Model(nn.Module):
    def forward(self, x, y):
        return x - y


def get_inputs():
    base = torch.randn(ROWS, 2 * COLUMNS)
    return [base[:, :COLUMNS], base[:, COLUMNS:]]


def get_init_inputs():
    return []
