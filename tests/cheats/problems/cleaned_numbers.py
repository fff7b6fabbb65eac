"""NaN and infinities replaced by numbers, then scaled."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x):
        return torch.nan_to_num(x, nan=0.5, posinf=4.0, neginf=-4.0) * 2


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
