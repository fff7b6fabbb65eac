"""Integer arithmetic, where only the exact answer is right."""

import torch
import torch.nn as nn

SIZE = 3000


class Model(nn.Module):
    def forward(self, x):
        return (x * 31 + 7) ^ (x >> 3)


def get_inputs():
    return [torch.randint(-(2**20), 2**20, (SIZE,), dtype=torch.int32)]


def get_init_inputs():
    return []
