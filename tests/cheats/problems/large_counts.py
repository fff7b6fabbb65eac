"""Sums of rows of counts, which torch adds up in 64 bits."""

import torch
import torch.nn as nn

ROWS = 4096
COLUMNS = 1024


class Model(nn.Module):
    def forward(self, x):
        return x.sum(-1)


def get_inputs():
    return [torch.randint(0, 100, (ROWS, COLUMNS), dtype=torch.int32)]


def get_init_inputs():
    return []
