"""Outer products, one for each of a batch."""

import torch
import torch.nn as nn

BATCH = 4
M = 16
N = 24


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, M, 1), torch.randn(BATCH, 1, N)]


def get_init_inputs():
    return []
