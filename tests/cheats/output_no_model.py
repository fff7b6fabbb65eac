"""Defines its class under another name and a function named ModelNew that gives the reference's own layer.

problem: softmax
expect: no_answer|not_triton|cheated
where: both
"""

import torch
import torch.nn as nn


class Fast(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


ModelNew = lambda *args: Fast()
