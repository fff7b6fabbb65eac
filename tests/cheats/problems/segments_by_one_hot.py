"""Means of segments, which the reference writes as a product with one-hot vectors."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, segments):
        super().__init__()
        self.segments = segments

    def forward(self, x, seg):
        hot = F.one_hot(seg, self.segments).to(x.dtype)
        n = hot.sum(0)
        return (hot.T @ x) / n.clamp(min=1)[:, None]


def get_inputs():
    return [torch.randn(20, 6), torch.randint(0, 7, (20,))]


def get_init_inputs():
    return [7]
