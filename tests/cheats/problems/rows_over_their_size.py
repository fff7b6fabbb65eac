"""Rows divided by their root mean square."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(12, 32)]


def get_init_inputs():
    return []
