"""The mean over the middle axis of a float16 tensor."""

import torch
import torch.nn as nn

BATCH = 2
STEPS = 161
WIDTH = 70


class Model(nn.Module):
    def forward(self, x):
        return torch.mean(x, dim=1)


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH, dtype=torch.float16)]


def get_init_inputs():
    return []
