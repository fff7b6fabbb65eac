"""h(t) = a(t) h(t-1) + b(t), as in state-space models."""

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 24
CHANNELS = 8


class Model(nn.Module):
    def forward(self, a, b):
        state = torch.zeros_like(b[:, 0])
        states = []
        for t in range(b.shape[1]):
            state = a[:, t] * state + b[:, t]
            states.append(state)
        return torch.stack(states, dim=1)


def get_inputs():
    return [torch.rand(BATCH, LENGTH, CHANNELS), torch.randn(BATCH, LENGTH, CHANNELS)]


def get_init_inputs():
    return []
