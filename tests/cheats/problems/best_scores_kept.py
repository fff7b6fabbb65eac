"""Scores divided by a temperature; those below the fifth largest of their row become -20."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
WIDTH = 60


class Model(nn.Module):
    def forward(self, x):
        scores = x / 0.7
        least = torch.topk(scores, 5, dim=-1).values[..., -1:]
        return torch.where(scores < least, torch.full_like(scores, -20.0), scores)


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
