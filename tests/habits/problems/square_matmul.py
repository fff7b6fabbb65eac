"""A product of two float32 matrices."""

import torch
import torch.nn as nn

M = 48
N = 40
K = 72


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
