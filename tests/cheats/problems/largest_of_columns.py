"""The largest whole number of each column."""

import torch
import torch.nn as nn

ROWS = 40
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x):
        return x.amax(0)


def get_inputs():
    return [torch.randint(-500, 500, (ROWS, COLUMNS), dtype=torch.int32)]


def get_init_inputs():
    return []
