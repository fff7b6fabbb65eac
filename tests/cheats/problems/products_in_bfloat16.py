"""A batch of matrix products in bfloat16."""

import torch
import torch.nn as nn

BATCH = 3
M = 21
N = 37
K = 90


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, M, K).bfloat16(), torch.randn(BATCH, K, N).bfloat16()]


def get_init_inputs():
    return []
