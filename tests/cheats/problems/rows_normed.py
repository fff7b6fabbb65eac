"""Rows with mean zero and variance one."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 24
WIDTH = 48


class Model(nn.Module):
    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:])


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
