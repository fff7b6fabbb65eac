"""The latest rows of all calls, and their mean."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
COLUMNS = 64
KEPT = 8


class Model(nn.Module):
    def __init__(self, kept, columns):
        super().__init__()
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))
        self.register_buffer("rows", torch.zeros(kept, columns))

    def forward(self, x):
        at = torch.arange(self.rows.shape[0], device=x.device).unsqueeze(1)
        self.rows.copy_(torch.where(at == self.place % 4, x[:1], self.rows))
        self.place += 1
        return x - self.rows.mean(0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [KEPT, COLUMNS]
