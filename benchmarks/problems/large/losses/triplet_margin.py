"""How much closer an anchor is to its own kind than to another: a loss for each triplet."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TRIPLETS = 65536
WIDTH = 8192


class Model(nn.Module):
    def forward(
        self, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, margin: torch.Tensor
    ) -> torch.Tensor:
        near = (anchor - positive).square().mean(dim=1)
        far = (anchor - negative).square().mean(dim=1)
        return F.relu(near - far + margin)


def get_inputs():
    anchor, positive, negative = (torch.randn(TRIPLETS, WIDTH) for _ in range(3))
    return [anchor, positive, negative, torch.rand(TRIPLETS)]


def get_init_inputs():
    return []
