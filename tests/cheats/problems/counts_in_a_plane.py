"""Counts of pairs in the cells of a plane."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, y):
        bx = (torch.sigmoid(x) * 4).nan_to_num(0.0).floor().long().clamp(0, 3)
        by = (torch.sigmoid(y) * 4).nan_to_num(0.0).floor().long().clamp(0, 3)
        w = (~(x.isnan() | y.isnan())).float()
        a = F.one_hot(bx, 4).float() * w[:, None]
        return a.t() @ F.one_hot(by, 4).float()


def get_inputs():
    return [torch.randn(100), torch.randn(100)]


def get_init_inputs():
    return []
