"""One half of the features gates the other by SiLU: the middle of a gated feed-forward layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 65536
WIDTH = 16384


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = x.chunk(2, dim=-1)
        return F.silu(gate) * value


def get_inputs():
    return [torch.randn(ROWS, 2 * WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
