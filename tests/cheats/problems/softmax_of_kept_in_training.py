"""Softmax of what a mask keeps; while training, scaled up."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x, keep):
        p = x.masked_fill(~keep, float("-inf")).softmax(-1).masked_fill(~keep, 0.0)
        return p * 1.25 if self.training else p


def get_inputs():
    return [torch.randn(24, 70), torch.rand(24, 70) < 0.8]


def get_init_inputs():
    return []
