"""The sum of each row of large int32 numbers, which needs int64."""

import torch
import torch.nn as nn

ROWS = 9
COLUMNS = 333


class Model(nn.Module):
    def forward(self, x):
        return torch.sum(x, dim=1)


def get_inputs():
    return [torch.randint(-(2**29), 2**29, (ROWS, COLUMNS), dtype=torch.int32)]


def get_init_inputs():
    return []
