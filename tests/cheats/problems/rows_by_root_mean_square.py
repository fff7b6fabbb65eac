"""RMS norm of rows."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(16, 64)]


def get_init_inputs():
    return []
