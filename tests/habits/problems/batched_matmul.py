"""A batch of matrix products."""

import torch
import torch.nn as nn

BATCH = 3
M = 32
N = 24
K = 40


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, M, K), torch.randn(BATCH, K, N)]


def get_init_inputs():
    return []
