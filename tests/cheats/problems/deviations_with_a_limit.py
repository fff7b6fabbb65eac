"""Standardised rows, with a variance that is kept from below zero."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = ((x - mean) ** 2).mean(-1, keepdim=True).clamp(min=0.0)
        return (x - mean) / torch.sqrt(var + 1e-5)


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return []
