"""An image cut into patches by a strided convolution, a class token put first, positions added: vision transformers."""

import torch
import torch.nn as nn

BATCH = 64
PATCHES = 16
SIDE = 14
WIDTH = 1024


class Model(nn.Module):
    def __init__(self, patches: int, side: int, width: int) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, side, stride=side)
        self.first = nn.Parameter(torch.randn(width) / 4)
        self.positions = nn.Parameter(torch.randn(patches * patches + 1, width) / 4)
        self.to(torch.bfloat16)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        patches = self.cut(image).flatten(2).transpose(1, 2)
        first = self.first.expand(len(image), 1, -1)
        return torch.cat([first, patches], dim=1) + self.positions


def get_inputs():
    return [torch.randn(BATCH, 3, PATCHES * SIDE, PATCHES * SIDE).to(torch.bfloat16)]


def get_init_inputs():
    return [PATCHES, SIDE, WIDTH]
