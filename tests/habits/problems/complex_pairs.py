"""A product of complex numbers that are kept as pairs of reals."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 40


class Model(nn.Module):
    def forward(self, x, y):
        real = x[..., 0] * y[..., 0] - x[..., 1] * y[..., 1]
        imaginary = x[..., 0] * y[..., 1] + x[..., 1] * y[..., 0]
        return torch.stack([real, imaginary], dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS, 2), torch.randn(ROWS, COLUMNS, 2)]


def get_init_inputs():
    return []
