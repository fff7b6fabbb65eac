"""Attention within windows, a learned bias for each offset between two pixels, a mask where windows wrap: Swin."""

import torch
import torch.nn as nn

IMAGES = 16
WINDOWS = 64
SIDE = 7
HEADS = 6
HEAD_WIDTH = 32


class Model(nn.Module):
    def __init__(self, side: int, heads: int, head_width: int) -> None:
        super().__init__()
        width = heads * head_width
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn((2 * side - 1) ** 2, heads))
        rows, columns = torch.arange(side * side) // side, torch.arange(side * side) % side
        down, right = rows[:, None] - rows + side - 1, columns[:, None] - columns + side - 1
        self.register_buffer("offset", down * (2 * side - 1) + right)
        self.half()

    def forward(self, x: torch.Tensor, apart: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project_in(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = query * query.shape[-1] ** -0.5 @ key.transpose(-2, -1) + self.bias[self.offset].permute(2, 0, 1)
        by_image = scores.unflatten(0, (-1, len(apart))).masked_fill(apart[:, None], float("-inf"))
        mixed = torch.softmax(by_image.flatten(0, 1), dim=-1) @ value
        return self.project_out(mixed.transpose(1, 2).flatten(2))


def get_inputs():
    region = torch.rand(WINDOWS, SIDE * SIDE) < 0.4
    apart = region[:, :, None] != region[:, None, :]
    return [(2 * torch.randn(IMAGES * WINDOWS, SIDE * SIDE, HEADS * HEAD_WIDTH)).half(), apart]


def get_init_inputs():
    return [SIDE, HEADS, HEAD_WIDTH]
