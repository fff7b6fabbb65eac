"""The sum of two bfloat16 tensors."""

import torch
import torch.nn as nn

BATCH = 6
WIDTH = 1301


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.randn(BATCH, WIDTH, dtype=torch.bfloat16), torch.randn(BATCH, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
