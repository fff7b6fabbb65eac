"""How far the rows of each matrix are from orthonormal."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, w):
        gram = w @ w.transpose(-1, -2)
        return (gram - torch.eye(w.shape[-2], device=w.device)).square().sum((-1, -2))


def get_inputs():
    return [torch.randn(12, 16, 32) / 32**0.5]


def get_init_inputs():
    return []
