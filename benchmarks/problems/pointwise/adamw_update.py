"""One AdamW step on a tensor: new weights and both moments, as an optimiser does for every parameter it has."""

import torch
import torch.nn as nn

ROWS = 4096
COLUMNS = 2048


class Model(nn.Module):
    def __init__(self, rate: float, decay: float) -> None:
        super().__init__()
        self.rate = rate
        self.decay = decay

    def forward(
        self, weight: torch.Tensor, gradient: torch.Tensor, first: torch.Tensor, second: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        first = 0.9 * first + 0.1 * gradient
        second = 0.95 * second + 0.05 * gradient.square()
        weight = weight * (1 - self.rate * self.decay) - self.rate * first / (second.sqrt() + 1e-3)
        return weight, first, second


def get_inputs():
    weight, gradient, first = (torch.randn(ROWS, COLUMNS) for _ in range(3))
    return [weight, gradient, first, torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return [0.05, 0.1]
