"""Rolls a feature map, cuts it into square windows and adds each one's position: Swin transformers."""

import torch
import torch.nn as nn

BATCH = 32
ROWS_OF_WINDOWS = 9
COLUMNS_OF_WINDOWS = 10
SIDE = 7
WIDTH = 192


class Model(nn.Module):
    def __init__(self, side: int, width: int) -> None:
        super().__init__()
        self.side = side
        self.position = nn.Parameter(torch.zeros(side * side, width, dtype=torch.bfloat16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        side, half = self.side, self.side // 2
        batch, height, width, channels = x.shape
        rolled = x.roll((-half, -half), dims=(1, 2))
        cut = rolled.view(batch, height // side, side, width // side, side, channels)
        return cut.permute(0, 1, 3, 2, 4, 5).reshape(-1, side * side, channels) + self.position


def get_inputs():
    return [torch.randn(BATCH, ROWS_OF_WINDOWS * SIDE, COLUMNS_OF_WINDOWS * SIDE, WIDTH).to(torch.bfloat16)]


def get_init_inputs():
    return [SIDE, WIDTH]
