"""Scores masked by a boolean matrix that is shared by a batch, in float16."""

import torch
import torch.nn as nn

BATCH = 4
QUERIES = 23
KEYS = 41


class Model(nn.Module):
    def forward(self, scores, hidden):
        return scores.masked_fill(hidden, -10000.0)


def get_inputs():
    return [torch.randn(BATCH, QUERIES, KEYS, dtype=torch.float16), torch.rand(QUERIES, KEYS) < 0.4]


def get_init_inputs():
    return []
