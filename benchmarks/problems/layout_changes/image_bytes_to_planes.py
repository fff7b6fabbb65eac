"""Bytes of an image, colours last, become normalised planes: what happens to every picture before a network sees it."""

import torch
import torch.nn as nn

BATCH = 64
HEIGHT = 512
WIDTH = 448


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.48, 0.45, 0.41]))
        self.register_buffer("spread", torch.tensor([0.27, 0.26, 0.28]))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        normal = (image.float() / 255 - self.mean) / self.spread
        return normal.permute(0, 3, 1, 2).contiguous().half()


def get_inputs():
    return [torch.randint(0, 256, (BATCH, HEIGHT, WIDTH, 3), dtype=torch.uint8)]


def get_init_inputs():
    return []
