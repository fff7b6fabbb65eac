"""Rows of a bfloat16 table chosen by int64 indices."""

import torch
import torch.nn as nn

BATCH = 3
STEPS = 11
ENTRIES = 57
WIDTH = 36


class Model(nn.Module):
    def __init__(self, entries, width):
        super().__init__()
        self.table = nn.Embedding(entries, width, dtype=torch.bfloat16)

    def forward(self, indices):
        return self.table(indices)


def get_inputs():
    return [torch.randint(0, ENTRIES, (BATCH, STEPS))]


def get_init_inputs():
    return [ENTRIES, WIDTH]
