"""The squared error of a tensor, relative to another one."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return (a - b).square().sum() / (b.square().sum() + 1e-12)


def get_inputs():
    return [torch.randn(16, 64), torch.randn(16, 64)]


def get_init_inputs():
    return []
