"""A linear layer and GELU on a batch of sequences."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
LENGTH = 10
IN_FEATURES = 40
OUT_FEATURES = 48


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.proj = nn.Linear(in_features, out_features)

    def forward(self, x):
        return F.gelu(self.proj(x))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
