"""Embedding bags with offsets and weights, mean over what is not padding."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.bag = nn.EmbeddingBag(n, d, mode="mean", padding_idx=0)

    def forward(self, ids, offsets):
        return self.bag(ids, offsets)


IDS = 30
BAGS = 6
VOCAB = 20
DIM = 12


def get_inputs():
    cuts = torch.sort(torch.randint(0, IDS + 1, (BAGS - 1,))).values
    return [torch.randint(0, VOCAB, (IDS,)), torch.cat((torch.zeros(1, dtype=torch.int64), cuts))]


def get_init_inputs():
    return [VOCAB, DIM]
