"""Word, position and segment embeddings added and normalised: the first layer of BERT."""

import torch
import torch.nn as nn

BATCH = 64
STEPS = 512
WIDTH = 768
WORDS = 30000


class Model(nn.Module):
    def __init__(self, words: int, steps: int, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(steps, width)
        self.segments = nn.Embedding(2, width)
        for table in (self.words, self.positions, self.segments):
            nn.init.normal_(table.weight, std=0.02)
        self.norm = nn.LayerNorm(width, eps=1e-5)
        self.to(torch.bfloat16)

    def forward(self, words: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        return self.norm(self.words(words) + self.positions.weight[: words.shape[1]] + self.segments(segments))


def get_inputs():
    return [torch.randint(0, WORDS, (BATCH, STEPS)), torch.randint(0, 2, (BATCH, STEPS))]


def get_init_inputs():
    return [WORDS, STEPS, WIDTH]
