"""Each vector's nearest codeword, its number and the distance to it: VQ-VAE, audio codecs, product quantisation."""

import torch
import torch.nn as nn

VECTORS = 16384
CODES = 2048
WIDTH = 128


class Model(nn.Module):
    def __init__(self, codes: int, width: int) -> None:
        super().__init__()
        self.codes = nn.Parameter(torch.randn(codes, width))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        products = x @ self.codes.T
        distances = x.square().sum(dim=1, keepdim=True) - 2 * products + self.codes.square().sum(dim=1)
        nearest = distances.min(dim=1)
        return nearest.indices, nearest.values


def get_inputs():
    return [torch.randn(VECTORS, WIDTH)]


def get_init_inputs():
    return [CODES, WIDTH]
