"""Three 5x5 max pools in a row, all stages side by side: the fast spatial pyramid of YOLO detectors."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 32
CHANNELS = 256
HEIGHT = 48
WIDTH = 48


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        once = F.max_pool2d(x, 5, stride=1, padding=2)
        twice = F.max_pool2d(once, 5, stride=1, padding=2)
        thrice = F.max_pool2d(twice, 5, stride=1, padding=2)
        return torch.cat([x, once, twice, thrice], dim=1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH).half()]


def get_init_inputs():
    return []
