"""A matrix product in float16, which torch accumulates in float32."""

import torch
import torch.nn as nn

M = 32
N = 48
K = 256


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K).half(), torch.randn(K, N).half()]


def get_init_inputs():
    return []
