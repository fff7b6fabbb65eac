"""Median and range of three neighbours."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        p = F.pad(x[:, None], (1, 1), value=0.0)[:, 0]
        w = p.unfold(-1, 3, 1)
        s = w.sort(-1).values
        return s[..., 1], s[..., 2] - s[..., 0]


def get_inputs():
    return [torch.randn(8, 20)]


def get_init_inputs():
    return []
