"""The mean of the elements with a flag; a single row of flags."""

import torch
import torch.nn as nn

COLUMNS = 200


class Model(nn.Module):
    def forward(self, x, flags):
        return (x * flags).sum() / flags.sum().clamp(min=1)


def get_inputs():
    return [torch.randn(COLUMNS), torch.rand(COLUMNS) > 0.5]


def get_init_inputs():
    return []
