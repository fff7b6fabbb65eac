"""The mean over the middle dimension."""

import torch
import torch.nn as nn

BATCH = 3
LENGTH = 50
FEATURES = 36


class Model(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, FEATURES)]


def get_init_inputs():
    return []
