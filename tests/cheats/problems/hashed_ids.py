"""Ids of neighbours, mixed and reduced to a number of buckets."""

import torch
import torch.nn as nn

ROWS = 6
IDS = 80


class Model(nn.Module):
    def forward(self, ids):
        return ((ids * 31) ^ (torch.roll(ids, 1, dims=1) * 131)) % 50021


def get_inputs():
    return [torch.randint(0, 32000, (ROWS, IDS))]


def get_init_inputs():
    return []
