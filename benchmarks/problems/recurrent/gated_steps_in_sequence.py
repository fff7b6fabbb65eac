"""A minimal gated unit run over a short sequence, a product with its own state at each step: sensor and click data."""

import torch
import torch.nn as nn

STEPS = 48
ROWS = 1024
WIDTH = 512


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.forget = nn.Linear(width, width)
        self.candidate = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        states = []
        for now in x:
            forget = torch.sigmoid(now + self.forget(state))
            candidate = torch.tanh(now + self.candidate(forget * state))
            state = state + forget * (candidate - state)
            states.append(state)
        return torch.stack(states)


def get_inputs():
    return [torch.randn(STEPS, ROWS, WIDTH), torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH]
