"""The place of the first largest number of each row."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x.argmax(-1)


def get_inputs():
    return [torch.randn(24, 70)]


def get_init_inputs():
    return []
