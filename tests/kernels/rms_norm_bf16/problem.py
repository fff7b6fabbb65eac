"""Root-mean-square normalisation with a weight in bfloat16; the inputs have a mean."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
STEPS = 9
WIDTH = 117


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width, dtype=torch.bfloat16))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, eps=1e-5)


def get_inputs():
    return [(torch.randn(BATCH, STEPS, WIDTH) + 0.5).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH]
