"""Counts of int32 numbers in bins, those beyond either end in the outermost."""

import torch
import torch.nn as nn

COUNT = 3001
BINS = 13


class Model(nn.Module):
    def __init__(self, bins):
        super().__init__()
        self.bins = bins

    def forward(self, x):
        return torch.bincount(torch.clamp(x, 0, self.bins - 1), minlength=self.bins)


def get_inputs():
    return [torch.randint(-2, BINS + 2, (COUNT,), dtype=torch.int32)]


def get_init_inputs():
    return [BINS]
