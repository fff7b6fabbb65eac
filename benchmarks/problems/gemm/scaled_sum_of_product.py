"""alpha A B + beta C in float32: the general matrix product of solvers and second-order optimisers."""

import torch
import torch.nn as nn

ROWS = 2048
INNER = 1536
COLUMNS = 2304


class Model(nn.Module):
    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta = beta

    def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        return self.alpha * (a @ b) + self.beta * c


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS), 30 * torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [0.7, -1.3]
