"""A B with a scale per row and one per column, clamped: what follows a product of quantised operands."""

import torch
import torch.nn as nn

ROWS = 4096
INNER = 2048
COLUMNS = 3072


class Model(nn.Module):
    def __init__(self, bound: float) -> None:
        super().__init__()
        self.bound = bound

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, row_scale: torch.Tensor, column_scale: torch.Tensor
    ) -> torch.Tensor:
        product = (a @ b) * row_scale[:, None] * column_scale
        return product.clamp(-self.bound, self.bound)


def get_inputs():
    a, b = torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS) * INNER**-0.5
    return [a.half(), b.half(), (0.5 + torch.rand(ROWS)).half(), (0.5 + torch.rand(COLUMNS)).half()]


def get_init_inputs():
    return [1.5]
