"""Rows of length one; a row of zeros stays one."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
