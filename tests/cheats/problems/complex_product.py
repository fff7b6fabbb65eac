"""A product of complex numbers, and the first factor as pairs of real ones: an output that is a view of an input."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 48


class Model(nn.Module):
    def forward(self, x, y):
        return x * y, torch.view_as_real(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS, dtype=torch.complex64), torch.randn(ROWS, COLUMNS, dtype=torch.complex64)]


def get_init_inputs():
    return []
