"""Where two rows of bytes differ."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x, y):
        return x ^ y


def get_inputs():
    return [torch.randint(0, 256, (ROWS, COLUMNS), dtype=torch.uint8) for _ in range(2)]


def get_init_inputs():
    return []
