"""A matrix product in half precision that is too large for the interpreter as given."""

import torch
import torch.nn as nn

M = 512
N = 512
K = 4096


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K).half(), torch.randn(K, N).half()]


def get_init_inputs():
    return []
