"""A linear layer with two 4-bit weights in each byte, low nibble first, zero point eight."""

import torch
import torch.nn as nn

TOKENS = 12
HALF_IN = 24
OUT_FEATURES = 36


class Model(nn.Module):
    def __init__(self, half_in, out_features):
        super().__init__()
        self.register_buffer("packed", torch.randint(0, 256, (out_features, half_in), dtype=torch.uint8))
        self.scale = nn.Parameter(torch.rand(out_features) * 0.1)

    def forward(self, x):
        low = (self.packed & 15).to(torch.float32) - 8.0
        high = (self.packed >> 4).to(torch.float32) - 8.0
        weight = torch.stack([low, high], dim=-1).flatten(1)
        return x @ (weight * self.scale[:, None]).t()


def get_inputs():
    return [torch.randn(TOKENS, 2 * HALF_IN)]


def get_init_inputs():
    return [HALF_IN, OUT_FEATURES]
