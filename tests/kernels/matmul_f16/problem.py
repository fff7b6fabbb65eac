"""The product of two float16 matrices with a long inner axis."""

import torch
import torch.nn as nn

M = 35
N = 50
K = 410


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K, dtype=torch.float16), torch.randn(K, N, dtype=torch.float16)]


def get_init_inputs():
    return []
