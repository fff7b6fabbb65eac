"""One less the cosine between pairs of long vectors."""

import torch
import torch.nn as nn

PAIRS = 65536
WIDTH = 12288


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = (a * b).sum(dim=1)
        lengths = a.square().sum(dim=1).sqrt() * b.square().sum(dim=1).sqrt()
        return 1 - product / (lengths + 1e-2)


def get_inputs():
    return [torch.randn(PAIRS, WIDTH) + 0.5, torch.randn(PAIRS, WIDTH) + 0.5]


def get_init_inputs():
    return []
