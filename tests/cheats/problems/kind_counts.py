"""How often each kind occurs in a row."""

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
        kinds = torch.arange(self.kinds, device=ids.device)
        return (ids[:, :, None] == kinds).sum(1)


def get_inputs():
    return [torch.randint(0, KINDS, (ROWS, LENGTH))]


def get_init_inputs():
    return [KINDS]
