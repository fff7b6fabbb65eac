"""The positive numbers of each row in their order, with zeros after them."""

import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 70


class Model(nn.Module):
    def forward(self, x):
        places = torch.cumsum(x > 0, dim=1) - 1
        room = torch.zeros(x.shape[0], x.shape[1] + 1, dtype=x.dtype, device=x.device)
        return room.scatter(1, torch.where(x > 0, places, x.shape[1]), x)[:, :-1]


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
