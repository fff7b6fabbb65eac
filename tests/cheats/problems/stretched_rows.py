"""Each row stretched to between zero and one."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        low, high = torch.aminmax(x, dim=-1, keepdim=True)
        return (x - low) / (high - low + 1e-3)


def get_inputs():
    return [torch.randn(24, 70)]


def get_init_inputs():
    return []
