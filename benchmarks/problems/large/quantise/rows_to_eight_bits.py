"""Each row in 8 bits by its own largest magnitude, and the scale: activations before an integer product."""

import torch
import torch.nn as nn

ROWS = 65536
WIDTH = 20480


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scale = x.abs().amax(dim=1, keepdim=True) / 127
        return torch.round(x / scale).to(torch.int8), scale


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
