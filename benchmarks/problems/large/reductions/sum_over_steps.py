"""The sum over the middle dimension, with rows of an odd length: pooling of a sequence."""

import torch
import torch.nn as nn

BATCH = 96
STEPS = 4096
WIDTH = 4095


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1)


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH) + 0.1]


def get_init_inputs():
    return []
