"""The mean squared error, by torch's own operator."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x, y):
        return F.mse_loss(x, y)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
