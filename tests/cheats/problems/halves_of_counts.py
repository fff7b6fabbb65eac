"""Half of how many numbers of each row are above nine."""

import torch
import torch.nn as nn

ROWS = 5
COLUMNS = 37


class Model(nn.Module):
    def forward(self, ids):
        return (ids > 9).sum(dim=1) // 2


def get_inputs():
    return [torch.randint(0, 64, (ROWS, COLUMNS))]


def get_init_inputs():
    return []
