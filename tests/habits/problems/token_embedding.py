"""Token embedding plus position embedding."""

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 9
WIDTH = 40
VOCABULARY = 60
POSITIONS = 32


class Model(nn.Module):
    def __init__(self, vocabulary, positions, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)

    def forward(self, ids):
        return self.tokens(ids) + self.positions.weight[: ids.shape[1]]


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH))]


def get_init_inputs():
    return [VOCABULARY, POSITIONS, WIDTH]
