"""A product of two float16 matrices."""

import torch
import torch.nn as nn

M = 40
N = 48
K = 64


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K, dtype=torch.float16) * 0.2, torch.randn(K, N, dtype=torch.float16) * 0.2]


def get_init_inputs():
    return []
