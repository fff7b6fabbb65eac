"""Embedding lookup by integer ids."""

import torch
import torch.nn as nn

VOCABULARY = 50
WIDTH = 24
BATCH = 4
LENGTH = 10


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, ids):
        return self.table(ids)


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, LENGTH))]


def get_init_inputs():
    return [VOCABULARY, WIDTH]
