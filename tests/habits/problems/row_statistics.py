"""Smallest, largest and mean of rows in a dataclass."""

from dataclasses import dataclass

import torch
import torch.nn as nn

ROWS = 10
COLUMNS = 110


@dataclass
class Statistics:
    smallest: torch.Tensor
    largest: torch.Tensor
    mean: torch.Tensor


class Model(nn.Module):
    def forward(self, x):
        return Statistics(x.amin(dim=1), x.amax(dim=1), x.mean(dim=1))


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
