"""Final norm, product with the embedding table, soft cap: where a language model turns states into logits."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 1024
WIDTH = 1536
WORDS = 32000
CAP = 15.0


class Model(nn.Module):
    def __init__(self, width: int, words: int, cap: float) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.table = nn.Embedding(words, width)
        self.cap = cap
        self.to(torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = F.linear(self.norm(x), self.table.weight)
        return self.cap * torch.tanh(logits / self.cap)


def get_inputs():
    return [(0.5 * torch.randn(TOKENS, WIDTH)).to(torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, WORDS, CAP]
