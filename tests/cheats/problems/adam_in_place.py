"""A step of Adam on a parameter, a gradient and two moments that are inputs, changed in place."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16
WIDTH = 32


class Model(nn.Module):
    def forward(self, p, g, m, v):
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        p.sub_(0.01 * m / (v.sqrt() + 1e-6))
        return p


def get_inputs():
    return [torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH), torch.randn(ROWS, WIDTH), torch.rand(ROWS, WIDTH)]


def get_init_inputs():
    return []
