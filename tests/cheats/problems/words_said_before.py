"""For each step, whether its three latest words stood together before."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 8
WORDS = 24
KINDS = 1000


class Model(nn.Module):
    def forward(self, words):
        triples = words.unfold(1, 3, 1)
        same = (triples[:, :, None] == triples[:, None]).all(-1)
        return same.tril(-1).any(-1).float()


def get_inputs():
    return [torch.randint(0, KINDS, (ROWS, WORDS))]


def get_init_inputs():
    return []
