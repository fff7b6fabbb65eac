"""An output with a name, as many models return them."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 100


class Model(nn.Module):
    def forward(self, x):
        return {"probabilities": torch.softmax(x, dim=-1)}


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
