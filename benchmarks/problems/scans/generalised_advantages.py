"""Advantages of every step, summed backwards in time with decay and cut where an episode ends: PPO."""

import torch
import torch.nn as nn

STEPS = 128
ROWS = 16384


class Model(nn.Module):
    def __init__(self, discount: float, trace: float) -> None:
        super().__init__()
        self.discount = discount
        self.trace = trace

    def forward(self, rewards: torch.Tensor, values: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
        goes_on = 1.0 - ended.to(values.dtype)
        surprise = rewards + self.discount * goes_on * values[1:] - values[:-1]
        advantage = surprise[-1]
        found = [advantage]
        for step in reversed(range(len(rewards) - 1)):
            advantage = surprise[step] + self.discount * self.trace * goes_on[step] * advantage
            found.append(advantage)
        return torch.stack(found[::-1])


def get_inputs():
    return [torch.randn(STEPS, ROWS), torch.randn(STEPS + 1, ROWS), torch.rand(STEPS, ROWS) < 0.03]


def get_init_inputs():
    return [0.98, 0.9]
