"""Rows put in order."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x.sort(-1).values


def get_inputs():
    return [torch.randn(8, 20)]


def get_init_inputs():
    return []
