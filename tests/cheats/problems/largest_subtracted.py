"""Ones where scaled scores are within a millionth of the largest."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
WIDTH = 60


class Model(nn.Module):
    def forward(self, x):
        scores = x * 0.3 + 0.1
        below = scores.max(-1, keepdim=True).values - scores
        return scores * (below <= 0)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
