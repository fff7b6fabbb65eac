"""Lower triangle of a matrix times a matrix; blocks above the diagonal are skipped"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, a, b):
        return torch.tril(a) @ b


N, M = 40, 18


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, M)]


def get_init_inputs():
    return []
