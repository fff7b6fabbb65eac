"""Embeddings of tokens and of their positions, added: where every language model begins."""

import torch
import torch.nn as nn

BATCH = 64
STEPS = 8192
VOCABULARY = 65536
WIDTH = 2048


class Model(nn.Module):
    def __init__(self, vocabulary: int, steps: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, dtype=torch.bfloat16)
        self.positions = nn.Embedding(steps, width, dtype=torch.bfloat16)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.tokens(tokens) + self.positions.weight


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, STEPS))]


def get_init_inputs():
    return [VOCABULARY, STEPS, WIDTH]
