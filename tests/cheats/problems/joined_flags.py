"""Flags that are kept as whole numbers, joined."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, a, b):
        return torch.logical_and(a, b)


def get_inputs():
    return [torch.randint(0, 2, (24, 70)), torch.randint(0, 2, (24, 70))]


def get_init_inputs():
    return []
