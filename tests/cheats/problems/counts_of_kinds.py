"""Counts how often each kind came, over all calls."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.register_buffer("counts", torch.zeros(kinds, dtype=torch.int64))

    def forward(self, kinds):
        now = (kinds.reshape(-1, 1) == torch.arange(self.counts.shape[0], device=kinds.device)).sum(0)
        self.counts.add_(now)
        return self.counts.clone()


def get_inputs():
    return [torch.randint(0, 16, (24, 11))]


def get_init_inputs():
    return [16]
