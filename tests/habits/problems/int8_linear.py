"""A linear layer whose weight is kept as int8 with a scale per row."""

import torch
import torch.nn as nn

TOKENS = 16
IN_FEATURES = 48
OUT_FEATURES = 40


class Model(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        weight = torch.randint(-127, 128, (out_features, in_features), dtype=torch.int8)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", torch.rand(out_features) * 0.01 + 0.001)

    def forward(self, x):
        return x @ (self.weight.float() * self.scale[:, None]).t()


def get_inputs():
    return [torch.randn(TOKENS, IN_FEATURES)]


def get_init_inputs():
    return [IN_FEATURES, OUT_FEATURES]
