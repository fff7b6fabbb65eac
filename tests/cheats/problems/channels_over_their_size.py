"""Channels of images, each divided by its root mean square."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.square().mean((0, 2, 3), keepdim=True) + 1e-12)


def get_inputs():
    return [torch.randn(4, 6, 5, 7)]


def get_init_inputs():
    return []
