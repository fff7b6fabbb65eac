"""A ring that keeps the last rows, and the inputs without the row at its beginning."""

import torch
import torch.nn as nn

ROWS = 16
COLUMNS = 70
LENGTH = 100


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cursor", torch.zeros((), dtype=torch.int64))
        self.register_buffer("ring", torch.zeros(LENGTH, COLUMNS))

    def forward(self, x):
        out = x - self.ring[0]
        self.ring[(self.cursor + torch.arange(x.shape[0], device=x.device)) % LENGTH] = x
        self.cursor.copy_((self.cursor + x.shape[0]) % LENGTH)
        return out


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
