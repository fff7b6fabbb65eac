"""The last place at which each of a few kinds occurs in a row, or -1."""

import torch
import torch.nn as nn

ROWS = 24
LENGTH = 60
KINDS = 16


class Model(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device).expand(ids.shape)
        out = torch.full((ids.shape[0], self.kinds), -1, dtype=torch.int64, device=ids.device)
        return out.scatter_reduce(1, ids, places, "amax", include_self=True)


def get_inputs():
    return [torch.randint(0, KINDS, (ROWS, LENGTH))]


def get_init_inputs():
    return [KINDS]
