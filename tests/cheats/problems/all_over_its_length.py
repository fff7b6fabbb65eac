"""Everything divided by its length, which is at least a millionth of a millionth."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x / x.norm().clamp(min=1e-12)


def get_inputs():
    return [torch.randn(24, 70)]


def get_init_inputs():
    return []
