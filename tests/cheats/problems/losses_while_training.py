"""Losses in training mode, probabilities in evaluation mode."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 24
KINDS = 70


class Model(nn.Module):
    def forward(self, x, labels):
        if self.training:
            return F.cross_entropy(x, labels, reduction="none")
        return torch.softmax(x, -1)


def get_inputs():
    return [torch.randn(ROWS, KINDS), torch.randint(0, KINDS, (ROWS,))]


def get_init_inputs():
    return []
