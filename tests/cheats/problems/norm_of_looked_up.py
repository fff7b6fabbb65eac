"""Word and place embeddings, summed and normalised, as in BERT."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, words, places, features):
        super().__init__()
        self.words = nn.Embedding(words, features)
        self.places = nn.Embedding(places, features)
        self.norm = nn.LayerNorm(features)

    def forward(self, ids):
        at = torch.arange(ids.shape[1], device=ids.device)
        return self.norm(self.words(ids) + self.places(at))


WORDS = 50
FEATURES = 70


def get_inputs():
    return [torch.randint(0, WORDS, (4, 11))]


def get_init_inputs():
    return [WORDS, 64, FEATURES]
