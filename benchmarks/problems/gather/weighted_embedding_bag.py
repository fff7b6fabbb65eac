"""Rows of a large table, weighted and added up per sample: sparse features of recommenders."""

import torch
import torch.nn as nn

TABLE = 200000
WIDTH = 96
BAGS = 65536
WORDS = 24


class Model(nn.Module):
    def __init__(self, table: int, width: int) -> None:
        super().__init__()
        self.bags = nn.EmbeddingBag(table, width, mode="sum")

    def forward(self, words: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return self.bags(words, per_sample_weights=weights)


def get_inputs():
    return [torch.randint(0, TABLE, (BAGS, WORDS)), torch.randn(BAGS, WORDS)]


def get_init_inputs():
    return [TABLE, WIDTH]
