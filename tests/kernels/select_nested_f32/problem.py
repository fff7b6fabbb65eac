"""A choice by a boolean tensor, with nested outputs: a copy of an input and the opposite mask."""

import torch
import torch.nn as nn

ROWS = 14
COLUMNS = 91


class Model(nn.Module):
    def forward(self, chosen, a, b):
        return torch.where(chosen, a, b), (a.clone(), torch.logical_not(chosen))


def get_inputs():
    return [torch.rand(ROWS, COLUMNS) < 0.5, torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
