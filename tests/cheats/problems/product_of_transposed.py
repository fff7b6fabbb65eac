"""A.T @ B.T with split K and atomics"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a.T, b.T)


M, N, K = 24, 20, 40


def get_inputs():
    return [torch.randn(K, M), torch.randn(N, K)]


def get_init_inputs():
    return []
