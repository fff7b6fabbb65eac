"""A product with long rows."""

import torch
import torch.nn as nn


M = 2048
K = 32768
N = 2048


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
