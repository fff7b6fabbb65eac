"""At each step the sum of all rewards from there on: returns to go, without a discount."""

import torch
import torch.nn as nn

EPISODES = 32768
STEPS = 24576


class Model(nn.Module):
    def forward(self, rewards: torch.Tensor) -> torch.Tensor:
        return rewards.flip(1).cumsum(dim=1).flip(1)


def get_inputs():
    return [torch.randn(EPISODES, STEPS)]


def get_init_inputs():
    return []
